"""One request while it is being handled: who asked, in which version, and how to answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

from milepost.broker.response_errors import count_errors, counting_errors
from milepost.errors import MilepostError
from milepost.protocol import frames

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work
    from milepost.net.request import Request
    from milepost.protocol.headers import RequestHeader
    from milepost.security.principal import KafkaPrincipal

logger = logging.getLogger("milepost.broker")


class Context:
    __slots__ = (
        *("api_key", "broker", "client_id", "correlation_id", "version", "request"),
        *("goes_on", "is_long", "is_urgent", "may_describe", "may_read", "refused"),
    )

    def __init__(self, broker: Parts, request: Request, header: RequestHeader):
        self.broker = broker
        self.request = request
        self.api_key = header.api_key
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id or ""
        # It took more than a slice, so its answer may too.
        self.is_long = False
        # What it does is done to the end, whether its client is there or not.
        self.goes_on = False
        # It does not wait for other long requests.
        self.is_urgent = False
        # Part of the answer already: a field, and what stands in it of resources that were denied (`rights`).
        self.refused: tuple[str, list[Any]] | None = None
        # Of a heartbeat whether the client may describe a topic, of a fetch whether it may read it. None: all of them.
        self.may_describe: Callable[[str], bool] | None = None
        self.may_read: Callable[[str], bool] | None = None

    def of(self, request: Request, correlation_id: int) -> Context:
        """The same for another request of this kind, from this client."""
        other = copy(self)
        other.request, other.correlation_id = request, correlation_id
        return other

    @property
    def client_host(self) -> str:
        return "/" + self.request.channel.peer.rpartition(":")[0]

    @property
    def principal(self) -> KafkaPrincipal:
        """Who asks. Nothing is handled before that is known."""
        principal = self.request.channel.principal
        assert principal is not None, "requests of others go no further than the login"
        return principal

    @property
    def listener(self) -> str:
        return self.request.channel.listener

    @property
    def connection(self) -> dict[str, object]:
        """What handlers remember about a connection; it goes with it."""
        return self.request.channel.state

    @property
    def is_broker(self) -> bool:
        """Whether another broker of the cluster asks."""
        return self.broker.topology.peers.is_broker(self.request.channel)

    def speaks_for(self, broker_id: int) -> bool:
        """Whether this very broker asks: one that has proven to be another does not."""
        return self.is_broker and self.request.channel.broker_id in (None, broker_id)

    def run(self, work: Work[None]) -> None:
        """Do what is left of this request in slices."""
        self.broker.dispatcher.slices.run(work, self)

    @property
    def is_connected(self) -> bool:
        return self.request.channel.is_open

    def answer(self, response: Any) -> None:
        """Send the response. Once per request, on the loop's thread, at once or later."""
        if self.refused is not None:
            field, parts = self.refused
            setattr(response, field, [*getattr(response, field), *parts])
        if self.is_long:
            self.run(self._answering(response))
            return
        count_errors(response, self.request.meter.errors)
        try:
            pieces = frames.gather_response(self.api_key, self.version, self.correlation_id, response)
        except MilepostError:
            # A bug in the broker, and not one to raise from here: a later answer is given by a timer, or in another client's request.
            logger.exception("the answer to API %d version %d cannot be written", self.api_key, self.version)
            self.close("the answer could not be written; the log of the broker says why")
            return
        self.request.send(pieces)

    def _answering(self, response: Any) -> Work[None]:
        output = self.request.channel.processor.output
        while output.is_full:
            yield output.when_free
        yield from counting_errors(response, self.request.meter.errors)
        pieces = yield from frames.gathering_response(self.api_key, self.version, self.correlation_id, response)
        self.request.send(pieces)

    def guarded(self, task: Callable[..., bool | None]) -> Callable[..., bool]:
        """`task`, to be called later, from wherever: what it raises ends this request, as it would in its handler, and nothing else.

        True when it did, so that a wait which asks whether it is over is over.
        """

        def run(*args: Any) -> bool:
            try:
                return bool(task(*args))
            except Exception:
                self.failed()
                return True

        return run

    def failed(self) -> None:
        """Inside of an `except`: what was raised ends this request."""
        self.broker.dispatcher.failed(self)

    def no_response(self) -> None:
        self.request.no_response()

    def close(self, reason: str) -> None:
        self.request.close(reason)
