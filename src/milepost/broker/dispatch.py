"""From a frame to its handler and back: header, version, body, answer.

Which APIs are served is the listing of `broker/requests`; a module there is imported when its API is first asked for. What only brokers and
controllers say to each other is served in a cluster, on the listeners that are for them, from connections that have proven
to be a broker's (`replica/broker_proof`); from other connections it is refused with CLUSTER_AUTHORIZATION_FAILED (31), as by a
broker without a cluster. What cannot be answered (an API or a version that is not known, a body that does not parse) closes the
connection, as in Kafka: without the schema there is no way to say so. ApiVersions alone is always answered, in version 0 if need be,
because that is how a client finds out.

A request of more than a few hundred elements is decoded in slices, and one that took more than a slice is answered in slices
(`broker/slices`): handlers need not know.

An exception that escapes a handler is a bug of ours. It is logged with its traceback and ends the connection, not the
broker: the log was not left half written, since appends undo themselves.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from milepost.broker import inter_broker, requests
from milepost.broker.authorizer import Authorizer
from milepost.broker.context import Context
from milepost.broker.produce.frames import ProduceFrames
from milepost.broker.produce.writers import Writers
from milepost.broker.slices import Slices, Work
from milepost.errors import MilepostError, TooManyElements
from milepost.protocol import frames, headers
from milepost.protocol.apis import API_VERSIONS, BY_KEY, BY_NAME, PRODUCE, Api

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.fetch.interfaces import RepeatedFetch
    from milepost.broker.parts import Parts
    from milepost.net.fast_path import FastPath
    from milepost.net.request import Request
    from milepost.net.request_metrics import RequestMeter

logger = logging.getLogger("milepost.broker")

ApiHandler = Callable[..., Any]
"""Of a request and its context. Returns the response, None when it answers by itself or later, or is a generator function (`slices`)."""
FETCH = 1


@cache
def module_name(api: Api) -> str:
    """`JoinGroup` is served by `join_group`."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in api.name).removeprefix("_")


@cache
def handled_apis() -> dict[int, Api]:
    """All that have a handler."""
    present = {module.name for module in pkgutil.iter_modules(requests.__path__)}
    return {api.key: api for api in BY_NAME.values() if module_name(api) in present}


def served_apis(*, with_login: bool = False) -> dict[int, Api]:
    """Those that are for clients; where some of them log in, with what that takes."""
    hidden = inter_broker.SERVED_IN_A_CLUSTER - inter_broker.LOGIN if with_login else inter_broker.SERVED_IN_A_CLUSTER
    return {key: api for key, api in handled_apis().items() if key not in hidden}


class Dispatcher:
    def __init__(
        self, broker: Parts, authorizer: Authorizer, served: Mapping[int, Api], cluster_parts: ClusterParts | None = None
    ):
        """`cluster_parts`: in a cluster, what handlers of requests between brokers get besides."""
        self.broker = broker
        self.authorizer = authorizer
        self.served = served
        self._cluster_parts = cluster_parts
        self._handlers: dict[int, ApiHandler] = {}
        is_open = authorizer.allows_everything
        # Who is asked for nothing may write to every topic; the others have paths that ask.
        self._produce_frames = ProduceFrames(broker, self._give_up) if is_open else None
        self._writers = None if is_open else Writers(authorizer, partial(ProduceFrames, broker, self._give_up))
        self.slices: Slices[Context] = Slices(broker, self.failed)

    def handle(self, request: Request) -> None:
        """The handler of the request channel."""
        try:
            login = request.channel.login
            if login is not None and login.takes(request):
                return
            repeated: RepeatedFetch | None = request.channel.state.get("fetch")
            if repeated is not None and repeated.handle(request):
                return
            header = headers.read_request_header(request.frame)
            api = self.served.get(header.api_key)
            if api is None or not api.serves(header.api_version) or self._is_forged(header, request):
                self._refuse(request, header)
                return
            try:
                body = frames.decode_short_request(header, request.frame)
            except TooManyElements:
                context = Context(self.broker, request, header)
                self.slices.run(self._decoding(api, header, context), context)
                return
            request.meter = self._meter(api, header.api_version, body)
        except MilepostError as error:
            request.close(str(error))
            return
        except Exception:
            self._give_up(request, "a request")
            return
        context = Context(self.broker, request, header)
        if header.api_key == PRODUCE:
            request.channel.fast_path = self._fast_path_of(context)  # more of the kind will follow
        try:
            response = self.handler_of(api)(body, context)
            if type(response) is GeneratorType:
                self.slices.run(self._handling(response, context), context)
            else:
                self._handled(response, context)
        except Exception:
            self.failed(context)

    def _fast_path_of(self, context: Context) -> FastPath | None:
        if self._writers is None:
            return self._produce_frames
        return self._writers.path_of(context.principal, context.client_host)

    def _decoding(self, api: Api, header: headers.RequestHeader, context: Context) -> Work[None]:
        request = context.request
        context.is_long = True
        try:
            body = yield from frames.decoding_request(header, request.frame)
        except MilepostError as error:
            request.close(str(error))
            return
        request.meter = self._meter(api, header.api_version, body)
        response = self.handler_of(api)(body, context)
        del body  # what the handler is through with is not kept for it
        if type(response) is GeneratorType:
            response = yield from response
        self._handled(response, context)

    def _refusing(self, header: headers.RequestHeader, request: Request) -> Work[None]:
        try:
            response = yield from inter_broker.refusing(header, request.frame)
        except MilepostError as error:
            request.close(str(error))
            return
        key, version = header.api_key, header.api_version
        request.send((yield from frames.gathering_response(key, version, header.correlation_id, response)))

    def _handling(self, work: Work[Any], context: Context) -> Work[None]:
        response = yield from work
        self._handled(response, context)

    def _handled(self, response: Any, context: Context) -> None:
        if response is not None:
            context.goes_on = False
            context.answer(response)
        elif not context.request.answered_at:
            context.request.handled_at = self.broker.loop.monotonic()  # the rest is waiting

    def failed(self, context: Context) -> None:
        """Inside of the `except`."""
        self._give_up(context.request, f"{BY_KEY[context.api_key].name} {context.version}")

    def _give_up(self, request: Request, name: str) -> None:
        logger.exception("%s from %s failed", name, request.channel.peer)
        if not request.answered_at and request.channel.is_open:
            request.close(f"{name} could not be handled; the log of the broker says why")

    def handler_of(self, api: Api) -> ApiHandler:
        handler = self._handlers.get(api.key)
        if handler is None:
            handler = self._handlers[api.key] = self.import_handler(api)
        return handler

    def import_handler(self, api: Api) -> ApiHandler:
        handler: ApiHandler = import_module(f"milepost.broker.requests.{module_name(api)}").handle
        if api.key in inter_broker.SERVED_IN_A_CLUSTER:
            handler = partial(handler, broker=self._cluster_parts)
        if self.authorizer.allows_everything:
            return handler
        from milepost.broker.rights.guards import guarded  # which most brokers do not need
        from milepost.broker.rights.table import GUARDS, UNGUARDED

        return handler if api.name in UNGUARDED else guarded(handler, GUARDS[api.name], self.authorizer)

    def _meter(self, api: Api, version: int, body: Any) -> RequestMeter:
        if api.key != FETCH:
            return self.broker.request_metrics.meter(api.name, version)
        from milepost.broker.fetch.replica_id import is_follower  # which is needed for it anyway

        return self.broker.request_metrics.meter(api.name, version, "FetchFollower" if is_follower(body) else "FetchConsumer")

    def _is_forged(self, header: headers.RequestHeader, request: Request) -> bool:
        """A version that only brokers send each other, from a connection that is no broker's."""
        return inter_broker.is_between_brokers(header) and not self.broker.topology.peers.is_broker(request.channel)

    def _refuse(self, request: Request, header: headers.RequestHeader) -> None:
        if header.api_key == API_VERSIONS:
            # In version 0, which every client reads: 35, and what there is.
            from milepost.broker.requests import api_versions

            response = api_versions.unsupported(self.served)
            request.send([frames.encode_response(API_VERSIONS, 0, header.correlation_id, response)])
            return
        api = BY_KEY.get(header.api_key)
        if api is not None and api.key in inter_broker.KEYS and api.knows(header.api_version):
            context = Context(self.broker, request, header)
            self.slices.run(self._refusing(header, request), context)
            return
        name = api.name if api else f"API {header.api_key}"
        request.close(f"{name} version {header.api_version} is not served here")
