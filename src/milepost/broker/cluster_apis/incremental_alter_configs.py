"""IncrementalAlterConfigs (key 44) in a cluster: see `broker/configs/cluster_configs`. Levels of loggers are this broker's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from milepost.broker.apis.incremental_alter_configs import Resource, alter_loggers, changed, ensure_once
from milepost.broker.configs import cluster_configs
from milepost.broker.configs.config_loggers import LoggerSettings
from milepost.broker.configs.config_resources import LOGGER
from milepost.errors import BrokerUnavailable
from milepost.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 44


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> Work[None]:
    context.goes_on = True

    def alter(resource: Resource, broker: ClusterParts, done: cluster_configs.Done) -> None:
        ensure_once(resource)
        if resource.resource_type == LOGGER:
            alter_loggers(resource, LoggerSettings(broker, resource.resource_name), request.validate_only)
            done(None)
        else:
            cluster_configs.change(*changed(resource, broker), request.validate_only, broker, done)

    def refuse(resource: Resource, broker: ClusterParts, done: cluster_configs.Done) -> None:
        done(BrokerUnavailable("ZooKeeper cannot be asked now; nothing was changed"))

    broker = cast("ClusterParts", context.broker)
    named = yield from cluster_configs.entities(request, broker)
    failures: list[bool] = []

    def subscribe(resume: Callable[[], object]) -> None:
        def failed() -> None:
            failures.append(True)
            resume()

        broker.member.with_fresh_settings(named, resume, failed)

    yield subscribe
    change_one = refuse if failures else alter
    yield from cluster_configs.changing_each(request, context, IncrementalAlterConfigsResponse, change_one)
