"""A request on its way through the server, and what may become of it.

    send         bytes go to the client; then its connection is read again
    no response  nothing goes out (acks=0); its connection is read again
    close        the connection ends
    throttle     after the answer, the connection stays unread for a while
    read ahead   its connection is read on before it is answered; responses are still sent in the order of the requests (response_order)

A request is stamped as it passes, by a monotonic clock: received, dequeued by a handler, handled (if it is not answered by
then: what is left is waiting for data or for other replicas), answered, taken by the processor, and when it is sent, it is
counted (request_metrics).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.net.request_metrics import UNNAMED

if TYPE_CHECKING:
    from milepost.net.channel import Channel
    from milepost.net.outgoing import Outgoing


class Request:
    """One frame of one connection.

    `frame` is valid until the handler returns: who answers later keeps a copy of what it needs, or calls `keep_frame` before.
    """

    __slots__ = (
        "answered_at",
        "channel",
        "dequeued_at",
        "frame",
        "handled_at",
        "is_read_ahead",
        "meter",
        "outgoing",
        "received_at",
        "size",
        "taken_at",
        "throttle_seconds",
    )

    taken_at: float  # from the answer on

    def __init__(self, channel: Channel, frame: memoryview, received_at: float):
        self.channel = channel
        self.frame = frame
        self.size = len(frame)
        self.received_at = self.dequeued_at = received_at
        self.handled_at = 0.0
        self.answered_at = 0.0
        self.throttle_seconds = 0.0
        self.is_read_ahead = False
        self.outgoing: Sequence[Outgoing] | None = None
        # Set when the header has been read.
        self.meter = UNNAMED

    def send(self, outgoing: Sequence[Outgoing]) -> None:
        """Answer, once. `outgoing` is a whole response frame, in pieces; pieces of a log file go from disk to socket directly."""
        self.channel.processor.answer(self, outgoing)

    def no_response(self) -> None:
        self.channel.processor.answer(self, ())

    def keep_frame(self) -> None:
        """Called by a handler that reads the frame after it returned."""
        if self.channel.is_advancing and not self.channel.processor.is_pooled:  # elsewhere the frame is a copy already
            self.channel.keep_frame()

    def read_ahead(self) -> None:
        """Called by a handler that will answer later, when no later request of the connection depends on its work."""
        self.channel.read_ahead(self)

    def count(self, sent_at: float) -> None:
        """The answer has left."""
        self.meter.count(self, sent_at)

    def close(self, reason: str) -> None:
        self.channel.processor.refuse(self, reason)
