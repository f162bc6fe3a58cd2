"""IncrementalAlterConfigs (key 44) in a cluster: see `broker/cluster_configs`. Levels of loggers are this broker's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker import cluster_configs
from milepost.broker.apis.incremental_alter_configs import Resource, alter_loggers, changed, ensure_once
from milepost.broker.config_loggers import LoggerSettings
from milepost.broker.config_resources import LOGGER
from milepost.errors import BrokerUnavailable
from milepost.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 44


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> None:
    def alter(resource: Resource, broker: ClusteredBroker, done: cluster_configs.Done) -> None:
        ensure_once(resource)
        if resource.resource_type == LOGGER:
            alter_loggers(resource, LoggerSettings(broker, resource.resource_name), request.validate_only)
            done(None)
        else:
            cluster_configs.change(*changed(resource, broker), request.validate_only, broker, done)

    def refuse(resource: Resource, broker: ClusteredBroker, done: cluster_configs.Done) -> None:
        done(BrokerUnavailable("ZooKeeper cannot be asked now; nothing was changed"))

    broker = cast("ClusteredBroker", context.broker)
    broker.member.with_fresh_settings(
        cluster_configs.entities(request, broker),
        lambda: cluster_configs.change_each(request, context, IncrementalAlterConfigsResponse, alter),
        lambda: cluster_configs.change_each(request, context, IncrementalAlterConfigsResponse, refuse),
    )
