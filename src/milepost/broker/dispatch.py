"""From a frame to its handler and back: header, version, body, answer.

Which APIs are served is the listing of `broker/apis`; a module there is imported when its API is first asked for.
What cannot be answered (an API or a version that is not known, a body that does not parse) closes the connection, as
in Kafka: without the schema there is no way to say so. ApiVersions alone is always answered, in version 0 if need be,
because that is how a client finds out.

An exception that escapes a handler is a bug of ours. It is logged with its traceback and ends the connection, not the
broker: the log was not left half written, since appends undo themselves.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from milepost.broker import apis, inter_broker
from milepost.broker.context import Context
from milepost.broker.remembered_produce import RememberedProduces
from milepost.errors import MilepostError
from milepost.protocol import frames, headers
from milepost.protocol.apis import API_VERSIONS, BY_KEY, BY_NAME, PRODUCE, Api

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.net.request import Request
    from milepost.net.request_metrics import RequestMeter

logger = logging.getLogger("milepost.broker")

ApiHandler = Callable[[Any, Context], Any]
FETCH = 1


@cache
def module_name(api: Api) -> str:
    """`JoinGroup` is served by `join_group`."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in api.name).removeprefix("_")


def served_apis() -> dict[int, Api]:
    present = {module.name for module in pkgutil.iter_modules(apis.__path__)}
    return {api.key: api for api in BY_NAME.values() if module_name(api) in present}


class Dispatcher:
    def __init__(self, broker: Broker):
        self.broker = broker
        self.served = served_apis()
        self._handlers: dict[int, ApiHandler] = {}
        self._remembered = RememberedProduces()

    def handle(self, request: Request) -> None:
        """The handler of the request channel."""
        try:
            if self._remembered.handle(request, self.broker):
                return
            header = headers.read_request_header(request.frame)
            api = self.served.get(header.api_key)
            if api is None or not api.serves(header.api_version) or self._is_for_brokers(header, request):
                self._refuse(request, header)
                return
            body, _ = frames.decode_request(header, request.frame)
            request.meter = self._meter(api, header.api_version, body)
            if header.api_key == PRODUCE:
                self._remembered.remember(request, body, header.api_version, self.broker)
        except MilepostError as error:
            request.close(str(error))
            return
        except Exception:
            self._give_up(request, "a request")
            return
        context = Context(self.broker, request, header)
        try:
            response = self.handler_of(api)(body, context)
            if response is not None:
                context.answer(response)
            elif not request.answered_at:
                request.handled_at = self.broker.loop.monotonic()  # the rest is waiting
        except Exception:
            self._give_up(request, f"{api.name} {header.api_version}")

    def _give_up(self, request: Request, name: str) -> None:
        logger.exception("%s from %s failed", name, request.channel.peer)
        if not request.answered_at and request.channel.is_open:
            request.close(f"{name} could not be handled; the log of the broker says why")

    def handler_of(self, api: Api) -> ApiHandler:
        handler = self._handlers.get(api.key)
        if handler is None:
            handler = import_module(f"milepost.broker.apis.{module_name(api)}").handle
            self._handlers[api.key] = handler
        return handler

    def _meter(self, api: Api, version: int, body: Any) -> RequestMeter:
        if api.key != FETCH:
            return self.broker.request_metrics.meter(api.name, version)
        from milepost.broker.apis.fetch import is_follower  # which is needed for it anyway

        return self.broker.request_metrics.meter(api.name, version, "FetchFollower" if is_follower(body) else "FetchConsumer")

    def _is_for_brokers(self, header: headers.RequestHeader, request: Request) -> bool:
        """A version that clients have no use for, on a listener for clients."""
        first = inter_broker.BROKERS_SINCE.get(header.api_key)
        if first is None or header.api_version < first:
            return False
        return request.channel.listener != self.broker.config.control_plane_listener_name

    def _refuse(self, request: Request, header: headers.RequestHeader) -> None:
        if header.api_key == API_VERSIONS:
            # In version 0, which every client reads: 35, and what there is.
            from milepost.broker.apis import api_versions

            response = api_versions.unsupported(self)
            request.send([frames.encode_response(API_VERSIONS, 0, header.correlation_id, response)])
            return
        api = BY_KEY.get(header.api_key)
        if api is not None and api.key in inter_broker.KEYS and api.knows(header.api_version):
            response = inter_broker.refusal(header, request.frame)
            request.send([frames.encode_response(api.key, header.api_version, header.correlation_id, response)])
            return
        name = api.name if api else f"API {header.api_key}"
        request.close(f"{name} version {header.api_version} is not served here")
