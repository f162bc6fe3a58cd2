"""The modules that are compiled when a compiler is there, and how to run them uncompiled anyway.

Each is Cython in pure-Python mode: `kernel.py` is both the source of `kernel.cpython-*.so` and a module that
runs as it stands. Python's own search order prefers the extension when both lie side by side, so a plain
`import milepost.record.kernel` takes the compiled one and nobody has to choose.

`MILEPOST_PURE=1` turns that around for a whole process: `milepost/__init__` calls `prefer_source()`, which puts
one finder in front of the usual ones. It answers for the names below only, and with the `.py`. A finder, and
not a second name such as `kernel_pure`, because the rest of the code must import the same name in both cases:
what is tested is then what runs. setup.py reads `COMPILED` too, so the list is written once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

COMPILED = (
    "milepost.record.kernel",
    "milepost.record.record_walks",
    "milepost.record.arrow_rows",
    "milepost.record.key_partitions",
    "milepost.log.cleaning.offset_map",
    "milepost.log.quick_append",
    "milepost.broker.produce.frames",
)


class SourceFinder:
    """Finds the `.py` of a compiled module, whatever extension lies beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in COMPILED or not path:
            return None
        source = f"{path[0]}/{name.rpartition('.')[2]}.py"
        return spec_from_file_location(name, source, loader=SourceFileLoader(name, source))


def prefer_source() -> None:
    """Every later import of a compiled module in this process runs its Python source."""
    if SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)
