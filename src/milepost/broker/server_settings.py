"""What the configuration of a broker says about its sockets and requests."""

from __future__ import annotations

from milepost.config.broker import BrokerConfig
from milepost.net.connection_limits import ConnectionLimits, parse_overrides
from milepost.net.socket_server import ServerSettings


def server_settings(config: BrokerConfig) -> ServerSettings:
    limits = ConnectionLimits(
        per_address=config.max_connections_per_ip,
        overrides=parse_overrides(config.max_connections_per_ip_overrides),
        creation_rate=config.max_connection_creation_rate,
    )
    limits.total = min(limits.total, config.max_connections)
    return ServerSettings(
        num_network_threads=config.num_network_threads,
        num_io_threads=config.num_io_threads,
        queued_max_requests=config.queued_max_requests,
        queued_max_request_bytes=config.queued_max_request_bytes,
        socket_request_max_bytes=config.socket_request_max_bytes,
        socket_send_buffer_bytes=config.socket_send_buffer_bytes,
        socket_receive_buffer_bytes=config.socket_receive_buffer_bytes,
        socket_listen_backlog_size=config.socket_listen_backlog_size,
        connections_max_idle_ms=config.connections_max_idle_ms,
        limits=limits,
        pooled=config.request_channel_mode == "pooled",
        busy_poll=config.milepost_busy_poll,
    )
