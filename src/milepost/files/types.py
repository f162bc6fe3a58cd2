"""The two shapes of memory that cross the file layer, for type checkers only."""

from __future__ import annotations

import mmap
from typing import Union

ReadableBuffer = Union[bytes, bytearray, memoryview]
View = Union[bytes, bytearray, memoryview, mmap.mmap]
