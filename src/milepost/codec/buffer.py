"""What the parsers take: anything that reads as single bytes, without a copy.

`Buffer` is an alias for annotations. A mapped file is passed as `memoryview(mapping)`.
"""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
