"""The broker that a configuration asks for: one of a cluster where it names a ZooKeeper, else one that is alone."""

from __future__ import annotations

from milepost.broker.broker import Broker
from milepost.config.broker import BrokerConfig
from milepost.errors import InvalidConfiguration


def broker_for(config: BrokerConfig) -> Broker:
    if config.zookeeper_connect is None:
        return Broker(config)
    # Here and not at the top: a broker that is alone needs none of it.
    try:
        from milepost.broker.clustered import ClusteredBroker
        from milepost.cluster.zookeeper import kazoo_session  # noqa: F401
    except ImportError as missing:
        raise InvalidConfiguration(f"zookeeper.connect needs kazoo ({missing}): pip install 'milepost[zookeeper]'") from missing
    return ClusteredBroker(config)
