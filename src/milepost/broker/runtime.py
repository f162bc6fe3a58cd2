"""What carries a broker: its sockets and threads. A simulation has models of them.

Listeners are bound when it is made, so that a port in use costs nothing; nothing is read before the server is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from milepost.broker.exclusive_gate import ExclusiveGate, GatedLoop
from milepost.broker.maintenance import Maintenance
from milepost.broker.produce.record_examiner import RecordExaminer
from milepost.config.broker import BrokerConfig
from milepost.config.listeners import Listener, parse_listener
from milepost.log.maintenance.side_thread import SideThread
from milepost.log.manager import LogManager
from milepost.loop import Loop
from milepost.net.connection_limits import ConnectionLimits, parse_overrides
from milepost.net.processor import MakeChannel
from milepost.net.request_channel import Handler
from milepost.net.socket_server import ServerSettings, SocketServer


class Runtime(NamedTuple):
    server: SocketServer
    loop: Loop
    """That of the server; with a pool of handlers whatever it runs is run in turn."""
    maintenance: Maintenance
    record_examiner: RecordExaminer


Channels = Mapping[str, MakeChannel]
"""What makes the connections of a listener, where that is no plain channel."""
MakeRuntime = Callable[[BrokerConfig, Handler, LogManager, Channels], Runtime]


def sockets(config: BrokerConfig, handle: Handler, logs: LogManager, channels: Channels) -> Runtime:
    settings = server_settings(config)
    clients, control = listeners(config)
    gate = ExclusiveGate(config.control_plane_listener_name) if settings.pooled else None
    handler = handle if gate is None else gate.handler(handle)
    server = SocketServer(clients, handler, settings, control_listener=control, channels=channels)
    loop: Loop = server.loop if gate is None else GatedLoop(server.loop, gate)
    maintenance = Maintenance(logs, loop)
    thread = SideThread("record-examiner", maintenance.inbox)
    return Runtime(server, loop, maintenance, RecordExaminer(thread, config.milepost_produce_max_decompressed_bytes))


def listeners(config: BrokerConfig) -> tuple[list[Listener], Listener | None]:
    """Those of clients, and the controller's own, if it has one."""
    control = config.control_plane_listener_name
    found = [parse_listener(each) for each in config.listeners]
    return [each for each in found if each.name != control], next((each for each in found if each.name == control), None)


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
