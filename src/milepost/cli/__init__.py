"""The program `milepost`: one module per command, imported when the command is called."""
