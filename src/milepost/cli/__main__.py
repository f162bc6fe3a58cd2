"""`python -m milepost.cli` is the program `milepost`."""

from milepost.cli.main import main

if __name__ == "__main__":
    main(prog_name="milepost")
