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
from importlib import import_module
from typing import TYPE_CHECKING, Any

from milepost.broker import apis
from milepost.broker.context import Context
from milepost.broker.remembered_produce import remember
from milepost.errors import MilepostError
from milepost.protocol import frames, headers
from milepost.protocol.apis import API_VERSIONS, BY_KEY, BY_NAME, PRODUCE, Api

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.net.request import Request

logger = logging.getLogger("milepost.broker")

ApiHandler = Callable[[Any, Context], Any]


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

    def handle(self, request: Request) -> None:
        """The handler of the request channel."""
        remembered = request.channel.state.get("produce")
        if remembered is not None and remembered.handle(request, self.broker):  # type: ignore[attr-defined]
            return
        try:
            header = headers.read_request_header(request.frame)
            api = self.served.get(header.api_key)
            if api is None or not api.serves(header.api_version):
                self._refuse(request, header)
                return
            body, _ = frames.decode_request(header, request.frame)
            if header.api_key == PRODUCE:
                request.channel.state["produce"] = remember(request, body, header.api_version, self.broker)
        except MilepostError as error:
            request.close(str(error))
            return
        context = Context(self.broker, request, header)
        try:
            response = self.handler_of(api)(body, context)
            request.handled_at = self.broker.loop.monotonic()
            if response is not None:
                context.answer(response)
        except Exception:
            logger.exception("%s %d from %s failed", api.name, header.api_version, request.channel.peer)
            if not request.answered_at and request.channel.is_open:
                request.close(f"{api.name} could not be handled; the log of the broker says why")

    def handler_of(self, api: Api) -> ApiHandler:
        handler = self._handlers.get(api.key)
        if handler is None:
            handler = import_module(f"milepost.broker.apis.{module_name(api)}").handle
            self._handlers[api.key] = handler
        return handler

    def _refuse(self, request: Request, header: headers.RequestHeader) -> None:
        if header.api_key == API_VERSIONS:
            # In version 0, which every client reads: 35, and what there is.
            from milepost.broker.apis import api_versions

            response = api_versions.unsupported(self)
            request.send([frames.encode_response(API_VERSIONS, 0, header.correlation_id, response)])
            return
        api = BY_KEY.get(header.api_key)
        name = api.name if api else f"API {header.api_key}"
        request.close(f"{name} version {header.api_version} is not served here")
