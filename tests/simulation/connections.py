"""Connections and requests as a broker's dispatcher sees them, without a socket: whole frames, both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from milepost.net.fast_path import FastPath
from milepost.net.request_metrics import UNNAMED
from milepost.security.principal import ANONYMOUS
from milepost.segment.file_records import FileSlice

LISTENER = "PLAINTEXT"


class SimulatedChannel:
    """One connection. It carries any number of requests at a time, and is never found closed: answers to the dead are dropped later."""

    is_open = True
    listener = LISTENER
    principal = ANONYMOUS
    login = None
    fast_path: FastPath | None = None
    processor = SimpleNamespace(output=SimpleNamespace(is_full=False))

    def __init__(self, client_id: str, broker_id: int | None) -> None:
        self.peer = f"{client_id}:0"
        self.broker_id = broker_id
        self.state: dict[str, Any] = {}


class SimulatedRequest:
    def __init__(self, channel: SimulatedChannel, frame: bytes, answer: Callable[[bytes], object]):
        """`frame`: with its size in front, as it was received."""
        self.channel = channel
        self._received = memoryview(bytearray(frame))
        self.frame = self._received[4:]
        self.size = len(self.frame)
        self.meter = UNNAMED
        self.handled_at = self.answered_at = 0.0
        self._answer = answer

    def hand_on(self, handle: Callable[[Any], object]) -> None:
        """By the fast path, if there is one that takes it, as a processor does."""
        fast_path, size = self.channel.fast_path, len(self._received)
        taken = None if fast_path is None else fast_path.take(self._received, 0, size, size, alone=True)
        if taken is None:
            handle(self)
        else:
            assert taken.last is not None
            taken.last.finish(self)  # type: ignore[arg-type]

    def send(self, pieces: Sequence[Any]) -> None:
        """Records leave the file with the answer: what becomes of it later does not matter."""
        self._answer(b"".join(piece.read() if isinstance(piece, FileSlice) else piece for piece in pieces))

    def keep_frame(self) -> None:
        """It has one of its own."""

    def read_ahead(self) -> None:
        """As every request here is."""

    def no_response(self) -> None:
        """Nobody waits."""

    def close(self, reason: str) -> None:
        raise AssertionError(f"{self.channel.peer} would be disconnected: {reason}")
