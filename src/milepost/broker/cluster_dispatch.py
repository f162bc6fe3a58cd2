"""The dispatcher of a broker in a cluster: handlers of `broker/cluster_apis` first, then those that every broker has.

What brokers and controllers say to each other is taken on the listeners that are for them, `inter.broker.listener.name` and
`control.plane.listener.name`, from connections that have proven to be a broker's (`replica/broker_proof`); from anybody else it is refused
with 31, as by a broker that is alone.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from milepost.broker import cluster_apis
from milepost.broker.dispatch import ApiHandler, Dispatcher, module_name
from milepost.broker.fetch.repeated import RepeatedFollowerFetch
from milepost.protocol.apis import BY_KEY, BY_NAME, Api

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.net.request import Request

OLD_VERSIONS_TOO = (27, 56)
DESCRIBE_QUORUM = 55


class ClusterDispatcher(Dispatcher):
    def __init__(self, broker: ClusterParts):
        super().__init__(broker)
        self._own = {module.name for module in pkgutil.iter_modules(cluster_apis.__path__)}
        self.served |= {api.key: api for api in BY_NAME.values() if module_name(api) in self._own}
        del self.served[DESCRIBE_QUORUM]  # as with Kafka and ZooKeeper: the controller is elected, without a quorum
        # Brokers of an older protocol send versions that Kafka 4 has dropped.
        self.served |= {key: BY_KEY[key]._replace(served=BY_KEY[key].known) for key in OLD_VERSIONS_TOO}

    def handle(self, request: Request) -> None:
        remembered = request.channel.state.get("fetch")
        if remembered is not None:
            assert isinstance(remembered, RepeatedFollowerFetch)
            try:
                if remembered.handle(request):
                    return
            except Exception:
                self._give_up(request, "a follower's fetch")
                return
        super().handle(request)

    def handler_of(self, api: Api) -> ApiHandler:
        handler = self._handlers.get(api.key)
        if handler is None:
            if module_name(api) not in self._own:
                return super().handler_of(api)
            handler = import_module(f"milepost.broker.cluster_apis.{module_name(api)}").handle
            self._handlers[api.key] = handler
        return handler
