"""A broker that answers what the test tells it to: for situations that a healthy broker never makes.

`handlers` maps an API's name to a function of (version, request) that gives the response, raw bytes to send as they are, CLOSE to close
the connection, or SILENCE. Several brokers with different handlers are a cluster whose leaders move.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from milepost.client.addresses import Address
from milepost.protocol import frames, headers
from milepost.protocol.apis import API_VERSIONS, APIS, BY_KEY, BY_NAME
from milepost.protocol.messages import ApiVersionsResponse, MetadataResponse

CLOSE, SILENCE = "close", "silence"
Handler = Callable[[int, Any], Any]
ALL_VERSIONS = {api.name: api.served for api in APIS}


class FakeBroker:
    def __init__(self, versions: dict[str, tuple[int, int]] | None = None, **handlers: Handler):
        self.versions = dict(versions or ALL_VERSIONS)
        self.handlers = dict(handlers)
        self.asked: list[tuple[str, int, Any]] = []
        """(API, version, request) in the order they came, without ApiVersions."""
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = Address(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def names(self) -> list[str]:
        return [name for name, _, _ in self.asked]

    def close(self) -> None:
        # A plain close would leave the thread in accept() with the descriptor, and the port open.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connected)
            threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        try:
            stream = connected.makefile("rb")
            while len(size := stream.read(4)) == 4:
                answer = self._answer(stream.read(*struct.unpack(">i", size)))
                if answer == CLOSE:
                    break
                if answer != SILENCE:
                    connected.sendall(answer)
            # makefile() holds the socket open, too.
            connected.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _answer(self, frame: bytes) -> Any:
        header = headers.read_request_header(frame)
        name = BY_KEY[header.api_key].name
        body, _ = frames.decode_request(header, frame)
        if header.api_key == API_VERSIONS and name not in self.handlers:
            response: Any = self.listing()
        else:
            self.asked.append((name, header.api_version, body))
            response = self.handlers[name](header.api_version, body)
        if isinstance(response, bytes | str):
            return response
        return frames.encode_response(header.api_key, header.api_version, header.correlation_id, response)

    def listing(self) -> ApiVersionsResponse:
        rows = [
            ApiVersionsResponse.ApiKey(api_key=BY_NAME[name].key, min_version=first, max_version=last)
            for name, (first, last) in self.versions.items()
        ]
        return ApiVersionsResponse(api_keys=rows)


@contextmanager
def fake_brokers(count: int) -> Iterator[list[FakeBroker]]:
    made = [FakeBroker() for _ in range(count)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


def metadata(brokers: list[FakeBroker], leaders: dict[str, list[int]], controller: int = 0) -> MetadataResponse:
    """A cluster of these brokers (their node ids are their places) in which `leaders[topic][partition]` lead."""
    Topic = MetadataResponse.Topic
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=at, host=each.address.host, port=each.address.port) for at, each in enumerate(brokers)
        ],
        controller_id=controller,
        topics=[
            Topic(
                name=name,
                partitions=[
                    Topic.Partition(
                        partition_index=number,
                        leader_id=leader,
                        error_code=5 if leader < 0 else 0,
                        replica_nodes=[0],
                        isr_nodes=[0],
                    )
                    for number, leader in enumerate(nodes)
                ],
            )
            for name, nodes in leaders.items()
        ],
    )
