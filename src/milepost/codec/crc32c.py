"""CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), the checksum of v2 batches and producer snapshots.

    crc32c(data, value=0) -> int      `value` is the checksum of what came before `data`

From the package `crc32c`: as fast as `google-crc32c` (20 GB/s on 64 KB, 0.12 us on 100 B), and it takes memoryviews.

Only its extension module is loaded. The package around it imports argparse and importlib.metadata for a
command line we never call: 42 ms at every start against 2 ms.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Protocol, cast

from milepost.codec.buffer import Buffer


class Checksum(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _load_extension() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        extension = PathFinder.find_spec("_crc32c", list(package.submodule_search_locations))
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            return cast(Checksum, module.crc32c)
    # Another layout of the package than the one we know: slower to import, same function.
    from crc32c import crc32c as packaged

    return cast(Checksum, packaged)


# The extension's own function, not a wrapper: a Python call around it would cost half as much again on small batches.
crc32c: Checksum = _load_extension()
