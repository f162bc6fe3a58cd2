"""How this broker fetches as a follower: by its configuration and by the protocol of its cluster."""

from __future__ import annotations

from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.config.broker import BrokerConfig
from milepost.replica.fetcher import FetcherSettings


def fetcher_settings(broker_id: int, config: BrokerConfig, versions: ProtocolVersions) -> FetcherSettings:
    return FetcherSettings(
        broker_id,
        versions.fetch,
        versions.list_offsets,
        versions.offset_for_leader_epoch,
        versions.truncates_on_fetch,
        config.replica_fetch_wait_max_ms,
        config.replica_fetch_min_bytes,
        config.replica_fetch_max_bytes,
        config.replica_fetch_response_max_bytes,
        config.replica_fetch_backoff_ms,
    )
