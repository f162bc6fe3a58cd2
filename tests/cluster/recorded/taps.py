"""Taps between brokers: each listens on a port of its own, passes every byte on, and notes the requests that go through it.

A broker advertises the port of its tap, so what others send to it is seen in the order of sending, as the recording of Kafka's brokers
was made. In front of ZooKeeper a tap may keep one word to itself for a while (`keeps_vacancy`): that the controller is gone. So another
broker wins the election.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections import Counter, deque
from typing import Any, NamedTuple

from milepost.protocol.connection import FrameReader
from milepost.protocol.frames import decode_request
from milepost.protocol.headers import read_request_header

NOTED = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown", 56: "AlterPartition"}
FETCH = 1
CHUNK = 1 << 16
SIZE = struct.Struct(">i")
WATCH_EVENT = SIZE.pack(-1)


class Noted(NamedTuple):
    to_broker: int
    api: str
    version: int
    request: Any


class Taps:
    """`with Taps() as taps:` runs them on a thread. `noted` lists the requests; those of followers and clients are left out."""

    def __init__(self) -> None:
        self.noted: list[Noted] = []
        self.fetches: Counter[tuple[int, str]] = Counter()
        """(leader, client id) -> how many there were."""
        self.unanswered = 0
        self.last_time = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Taps:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, target: int, broker_id: int | None = None) -> Tap:
        """A tap before a port of this machine; without a broker's id nothing is noted."""
        return asyncio.run_coroutine_threadsafe(self._add(target, broker_id), self._loop).result()

    async def _add(self, target: int, broker_id: int | None) -> Tap:
        tap = Tap(self, target, broker_id)
        server = await asyncio.start_server(self._connected(tap), "127.0.0.1", 0)
        self._servers.append(server)
        tap.port = server.sockets[0].getsockname()[1]
        return tap

    def _connected(self, tap: Tap) -> Any:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(tap.serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return connected

    def note(self, noted: Noted) -> None:
        self.noted.append(noted)
        self.last_time = time.monotonic()

    def answered(self, was_noted: bool) -> None:
        if was_noted:
            self.unanswered -= 1
            self.last_time = time.monotonic()

    def take(self) -> list[Noted]:
        """What was noted since the last time."""
        taken, self.noted = self.noted, []
        return taken


class Tap:
    def __init__(self, taps: Taps, target: int, broker_id: int | None):
        self.port = 0
        self.keeps_vacancy = False
        self._taps = taps
        self._target = target
        self._broker_id = broker_id

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        open_requests: deque[bool] = deque()  # of each whether it was noted
        passing = [
            asyncio.ensure_future(self._pass_requests(reader, requests, open_requests)),
            asyncio.ensure_future(self._pass_answers(answers, writer, open_requests)),
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in passing:
                each.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            self._taps.unanswered -= sum(open_requests)
            for end in (requests, writer):
                end.close()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, open_requests: deque[bool]
    ) -> None:
        frames = FrameReader()
        while data := await reader.read(CHUNK):
            if self._broker_id is not None:
                for frame in frames.feed(data):
                    is_noted = self._note(bytes(frame), self._broker_id)
                    open_requests.append(is_noted)
                    self._taps.unanswered += is_noted
            writer.write(data)

    def _note(self, frame: bytes, broker_id: int) -> bool:
        api_key = int.from_bytes(frame[:2])
        name = NOTED.get(api_key)
        if api_key == FETCH:
            self._taps.fetches[broker_id, read_request_header(frame).client_id or ""] += 1
        if name is not None:
            header = read_request_header(frame)
            self._taps.note(Noted(broker_id, name, header.api_version, decode_request(header, frame)[0]))
        return name is not None

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, open_requests: deque[bool]) -> None:
        frames = FrameReader()
        while data := await reader.read(CHUNK):
            for frame in frames.feed(data):
                if self._broker_id is not None:
                    self._taps.answered(open_requests.popleft())
                elif frame[:4] == WATCH_EVENT and bytes(frame).endswith(b"/controller"):
                    while self.keeps_vacancy:
                        await asyncio.sleep(0.02)
                writer.write(SIZE.pack(len(frame)) + frame)
