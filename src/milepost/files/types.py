"""The two shapes of memory that cross the file layer, for type checkers only."""

from __future__ import annotations

import mmap
from typing import TypeAlias

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview
View: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
