"""The dispatcher of a broker in a cluster: it also serves what only brokers and controllers say to each other.

That is taken on the listeners that are for them, `inter.broker.listener.name` and `control.plane.listener.name`, from connections that
have proven to be a broker's (`replica/broker_proof`); from anybody else it is refused with 31, as by a broker that is alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.authorizer import EVERYBODY, Authorizer
from milepost.broker.dispatch import ApiHandler, Dispatcher, handled_apis
from milepost.broker.inter_broker import SERVED_IN_A_CLUSTER
from milepost.protocol.apis import BY_KEY, Api

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts

OLD_VERSIONS_TOO = (27, 56)
DESCRIBE_QUORUM = 55


class ClusterDispatcher(Dispatcher):
    def __init__(self, broker: ClusterParts, authorizer: Authorizer = EVERYBODY):
        super().__init__(broker, authorizer)
        self._cluster_parts = broker
        self.served |= {key: api for key, api in handled_apis().items() if key in SERVED_IN_A_CLUSTER}
        del self.served[DESCRIBE_QUORUM]  # as with Kafka and ZooKeeper: the controller is elected, without a quorum
        # Brokers of an older protocol send versions that Kafka 4 has dropped.
        self.served |= {key: BY_KEY[key]._replace(served=BY_KEY[key].known) for key in OLD_VERSIONS_TOO}

    def import_handler(self, api: Api) -> ApiHandler:
        handler = super().import_handler(api)
        return partial(handler, broker=self._cluster_parts) if api.key in SERVED_IN_A_CLUSTER else handler
