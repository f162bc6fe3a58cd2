"""A broker in the test's own thread and time: bytes go in through its network layer, and what comes out is judged.

A connection is a pair of local sockets handed to a processor; the test writes to one end, runs the loop for as long as it has
something to do, and reads. The clock stands still until an answer does not come; then it is moved on, past every timer that a
request can wait for. So a request that waits half an hour is answered at once, and one that is never answered is noticed.

What counts as a finding (`Finding`): an exception that escapes a handler or the loop, an answer that is not one (wrong
correlation id, does not decode, bytes left over), UNKNOWN_SERVER_ERROR anywhere in it, no answer at all, more than
`SLOW_SECONDS` of work, and a broker that does not answer afterwards.
"""

from __future__ import annotations

import logging
import random
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.clock import ManualClock
from milepost.errors import MilepostError
from milepost.net.channel import Channel
from milepost.protocol import frames, generated, headers
from milepost.protocol.apis import API_VERSIONS, PRODUCE
from milepost.protocol.message import Message

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
SLOW_SECONDS = 10
# The longest that a request may wait: the longest session, the longest rebalance, and a little.
LONGEST_WAIT = 2 * 1800.0
START_MS = 1_700_000_000_000
UNKNOWN_SERVER_ERROR = -1


class Finding(AssertionError):
    pass


class Escaped(logging.Handler):
    """Keeps what was logged with a traceback, or as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Link:
    """One connection of the driven broker, seen from its client."""

    def __init__(self, driven: DrivenBroker):
        self._driven = driven
        self._mine, theirs = socket.socketpair()
        self._mine.setblocking(False)
        theirs.setblocking(False)
        broker = driven.broker
        broker.server.settings.limits.opened("127.0.0.1")
        self.channel: Channel = broker.server.processors[0].accept(theirs, f"127.0.0.1:{self._mine.fileno()}", "PLAINTEXT")
        self._received = bytearray()
        driven.links.append(self)

    @property
    def is_open(self) -> bool:
        return self.channel.is_open

    def send(self, data: bytes) -> None:
        """As much as the broker takes before it closes the connection."""
        view = memoryview(data)
        while view and self.is_open:
            try:
                view = view[self._mine.send(view) :]
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                return
            self._driven.settle()
            self._read()

    def _read(self) -> None:
        while True:
            try:
                piece = self._mine.recv(1 << 16)
            except (BlockingIOError, ConnectionResetError):
                return
            if not piece:
                return
            self._received += piece

    def frame(self) -> bytes | None:
        """The next answer, without its size; None if there is none yet."""
        self._read()
        if len(self._received) < 4:
            return None
        (size,) = struct.unpack_from(">i", self._received)
        if len(self._received) < 4 + size:
            return None
        frame = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        return frame

    def answer(self) -> bytes | None:
        """The next answer, waited for as long as it takes in the broker's time; None when the connection was closed instead."""
        waited = 0.0
        while self.is_open and waited <= LONGEST_WAIT:
            found = self.frame()
            if found is not None:
                return found
            self._driven.pass_time(1.0 if waited < 2 else waited)
            waited += max(1.0, waited)
        return self.frame()

    def close(self) -> None:
        self._mine.close()
        if self in self._driven.links:
            self._driven.links.remove(self)
        self._driven.settle()


class DrivenBroker:
    def __init__(self, directory: Path, seed: int = 0, **settings: str):
        self.clock = ManualClock(START_MS)
        config = {"log.dirs": str(directory), **SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        self.broker = AloneBroker(config, clock=self.clock, rng=random.Random(seed))
        self._life = Life(self.broker)
        self._life.start()
        # From where the loop's own clock is: timers have been set by it.
        self._now = self.broker.loop.monotonic()
        self.broker.loop.monotonic = lambda: self._now
        self._escaped = Escaped()
        logging.getLogger("milepost").addHandler(self._escaped)
        self._side_threads = [*self.broker.logs.scheduler._threads.values(), self.broker.record_examiner._thread]
        self.links: list[Link] = []
        self.connection = Link(self)
        self.closed = self.answered = 0

    def settle(self) -> None:
        """Run the loop until there is nothing left to do at this moment, on this thread or beside it: a disk takes no time here."""
        loop = self.broker.loop
        while True:
            while loop._posted or loop._long_work or loop._epoll.poll(0):
                loop.run_once(0)
            if not any(thread.unfinished for thread in self._side_threads):
                return
            loop._epoll.poll(1)

    def pass_time(self, seconds: float) -> None:
        self._now += seconds
        self.clock.advance(int(seconds * 1000))
        self.broker.loop.run_once(0)
        self.settle()

    def stop(self) -> None:
        logging.getLogger("milepost").removeHandler(self._escaped)
        for link in list(self.links):
            link.close()
        self._life.close()

    # Judging.

    def feed(self, frame: bytes) -> Message | None:
        """One frame, without its size: the answer to it, or None when there is rightly none. Anything else is a finding."""
        try:
            with limited(SLOW_SECONDS):
                if not self.connection.is_open:
                    self.connection.close()
                    self.connection = Link(self)
                self.connection.send(struct.pack(">i", len(frame)) + frame)
                return self._judged(frame)
        except Exception as error:
            # What comes later on this connection may be the answer to this request.
            self.connection.close()
            if isinstance(error, Finding):
                raise
            raise Finding(f"{type(error).__name__}: {error}\n{told(frame)}") from error

    def _judged(self, frame: bytes) -> Message | None:
        expected = expectation(frame)
        answer = None if expected == "nothing" else self.connection.answer()
        self.judge_log(frame)
        if answer is None:
            if self.connection.is_open and expected != "nothing":
                raise Finding(f"no answer, and the connection is open\n{told(frame)}")
            self.closed += not self.connection.is_open
            return None
        self.answered += 1
        header = headers.read_request_header(frame)
        version = header.api_version
        if header.api_key == API_VERSIONS and answer[4:6] == b"\x00\x23":
            version = 0
        try:
            correlation_id, start = headers.read_response_header(answer, header.api_key, version)
            response, end = generated.response_decoder(header.api_key, version)(answer, start)
        except MilepostError as error:
            raise Finding(f"the answer does not decode: {error}\n{told(frame)}\nanswer {answer[:2000].hex()}") from error
        if correlation_id != header.correlation_id or end != len(answer):
            raise Finding(f"the answer has id {correlation_id} and ends at {end} of {len(answer)}\n{told(frame)}")
        for place, code in error_codes(response):
            if code == UNKNOWN_SERVER_ERROR and not self._is_crippled:
                raise Finding(f"UNKNOWN_SERVER_ERROR in {place}\n{told(frame)}\n{response!r}"[:4000])
        return response

    @property
    def _is_crippled(self) -> bool:
        """Somebody set the limits of an internal topic so low that nothing can be written there: as in Kafka there is no code for it."""
        topics = self.broker.cluster.topics
        return any(
            "max.message.bytes" in topics[name].configs
            for name in ("__consumer_offsets", "__transaction_state")
            if name in topics
        )

    def judge_log(self, frame: bytes) -> None:
        if self._escaped.records:
            record = self._escaped.records.pop()
            error = record.exc_info[1] if record.exc_info else None
            raise Finding(f"{record.getMessage()}: {type(error).__name__}: {error}\n{told(frame)}") from error

    def judge_health(self) -> None:
        """The broker answers another client."""
        link = Link(self)
        link.send(frames.encode_request(3, 12, 7, "health", generated.class_named("MetadataRequest")(topics=[])))
        answer = link.answer()
        if answer is None or frames.decode_response(3, 12, answer)[0] != 7:
            raise Finding("another client is not answered any more")
        link.close()
        self.judge_log(b"")


def expectation(frame: bytes) -> str:
    """ "nothing" for what Kafka does not answer: a produce request with acks 0. Else "answer", or a closed connection."""
    try:
        header = headers.read_request_header(frame)
        if header.api_key == PRODUCE and header.api_version >= 3:
            return "nothing" if frames.decode_request(header, frame)[0].acks == 0 else "answer"
    except MilepostError:
        pass
    return "answer"


def told(frame: bytes) -> str:
    """A frame for people."""
    try:
        header = headers.read_request_header(frame)
        body = repr(frames.decode_request(header, frame)[0])
    except MilepostError as error:
        header, body = None, str(error)
    return f"request {header!r}\n{body[:3000]}\nhex {frame[:3000].hex()}"


def error_codes(message: Any, place: str = "") -> Iterator[tuple[str, int]]:
    """Every error code of a message, with where it is."""
    for field in message._schema.fields:
        value = getattr(message, field.name)
        where = f"{place}{field.name}"
        if field.struct is not None:
            inner = value if isinstance(value, list) else [] if value is None else [value]
            for each in inner:
                yield from error_codes(each, f"{where}.")
        elif field.name.endswith("error_code"):
            yield where, value


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Whatever takes longer is interrupted, also an endless loop: `seconds` of CPU, since the machine may have other things to do,
    and ten times as long for whoever waits.
    """
    start, used = time.monotonic(), time.process_time()

    def interrupt(number: int, frame: object) -> None:
        raise Finding(f"not done after {time.monotonic() - start:.0f} seconds, {time.process_time() - used:.0f} of them at work")

    limits = {signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds), signal.SIGPROF: (signal.ITIMER_PROF, seconds)}
    before = {number: signal.signal(number, interrupt) for number in limits}
    for timer, limit in limits.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for number, (timer, _) in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
