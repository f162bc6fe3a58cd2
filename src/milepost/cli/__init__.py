"""The program `milepost`: one module per command, imported when its command is run."""
