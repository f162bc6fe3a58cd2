"""A milepost that can be started: this one, or the one that `--beside` names.

`--beside` takes a Python, whose own packages have another milepost, or a directory of sources (a checkout's `src`), which this Python then
imports before its own packages. Compiled modules lie beside the sources: a checkout that is compared with a compiled one has to be compiled
too (`python setup.py build_ext --inplace` there). `compared` says what was found, for the table's heading.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BESIDE = "another version of milepost: the one that a Python has, or of a directory of sources"
QUESTION = """
import sys, milepost, milepost.record.kernel as kernel
kind = "uncompiled" if kernel.__file__.endswith(".py") else "compiled"
print(f"{milepost.__path__[0]}, {kind}, Python {sys.version.split()[0]}")
"""


@dataclass(frozen=True)
class Installed:
    """`sources`: what stands in PYTHONPATH, if anything."""

    python: str
    sources: str | None = None

    @property
    def serve(self) -> list[str]:
        return [self.python, "-m", "milepost.cli", "serve"]

    def environment(self, bytecode: Path) -> dict[str, str]:
        """With bytecode that the first start leaves behind in a directory, as an installed package has it."""
        left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
        return environment if self.sources is None else {**environment, "PYTHONPATH": self.sources}

    def described(self) -> str:
        environment = {**os.environ, "PYTHONPATH": self.sources or ""}
        done = subprocess.run([self.python, "-c", QUESTION], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self.sources or self.python}: there is no milepost that can be imported:\n{done.stderr[-500:]}")
        return done.stdout.strip()


THIS = Installed(sys.executable, os.environ.get("PYTHONPATH"))


def beside(named: str) -> Installed:
    """What `--beside` names: a directory of sources, or a Python."""
    if not Path(named).is_dir():
        return Installed(named)
    if not Path(named, "milepost").is_dir():
        raise SystemExit(f"--beside {named}: a directory of sources has a directory milepost, this one has none")
    return Installed(sys.executable, str(Path(named).resolve()))


def compared(named: str | None) -> str:
    """What is measured, and what beside it."""
    return f"milepost: {THIS.described()}" + (f"; beside it: {beside(named).described()}" if named else "")
