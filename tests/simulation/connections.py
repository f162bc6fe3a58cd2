"""Connections and requests as a broker's dispatcher sees them, without a socket: whole frames, both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from milepost.net.request_metrics import UNNAMED
from milepost.segment.file_records import FileSlice

LISTENER = "PLAINTEXT"


class SimulatedChannel:
    """One connection. It carries any number of requests at a time, and is never found closed: answers to the dead are dropped later."""

    is_open = True
    listener = LISTENER
    shortcut = None
    processor = SimpleNamespace(output=SimpleNamespace(is_full=False))

    def __init__(self, client_id: str, broker_id: int | None) -> None:
        self.peer = f"{client_id}:0"
        self.broker_id = broker_id
        self.state: dict[str, Any] = {}


class SimulatedRequest:
    def __init__(self, channel: SimulatedChannel, frame: bytes, answer: Callable[[bytes], object]):
        self.channel = channel
        self.frame = memoryview(bytearray(frame))
        self.size = len(frame)
        self.meter = UNNAMED
        self.handled_at = self.answered_at = 0.0
        self._answer = answer

    def send(self, pieces: Sequence[Any]) -> None:
        """Records leave the file with the answer: what becomes of it later does not matter."""
        self._answer(b"".join(piece.read() if isinstance(piece, FileSlice) else piece for piece in pieces))

    def keep_frame(self) -> None:
        """It has one of its own."""

    def let_go(self) -> None:
        """As every request here is."""

    def no_response(self) -> None:
        """Nobody waits."""

    def close(self, reason: str) -> None:
        raise AssertionError(f"{self.channel.peer} would be disconnected: {reason}")
