"""`make bench`: every table, one after the other."""

from __future__ import annotations

import runpy
from pathlib import Path

PROGRAMS = ("kernel", "append", "lookup", "opening", "verify", "protocol")

if __name__ == "__main__":
    for program in PROGRAMS:
        runpy.run_path(str(Path(__file__).with_name(f"{program}.py")), run_name="__main__")
