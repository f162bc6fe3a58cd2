"""How much memory a peer makes a connection keep."""

from __future__ import annotations

from milepost.net.frame_input import FrameInput


def input_memory(connection: FrameInput) -> int:
    """Bytes of its own: a buffer that is lent to it is not."""
    held = connection._held
    return len(connection._kept) + (len(held) if held is not None and not connection._is_lent else 0)
