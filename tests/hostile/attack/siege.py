"""One attack beside a healthy client: what it made the client wait, what it made the broker grow by, and what it was answered.

Everything happens in one thread: the attack's socket is fed and emptied between two requests of the healthy client, so nothing here
competes with what is timed. The attack is over when it is answered, when the connection is closed, or when the broker has nothing to
do any more and only waits, as a fetch does for records and a join for the others.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from milepost.protocol import frames
from milepost.protocol.apis import Api
from milepost.protocol.error_codes import error_name
from milepost.protocol.messages import MetadataRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire
from tests.fuzz.driven_broker import error_codes
from tests.hostile.attack.generator import Attack
from tests.hostile.attack.target import Process, scheduled
from tests.hostile.besieged import NOW, fetch, produce

MOST_WAIT = 0.050
MOST_GROWTH = 64 << 20
HEALTHY_TOPIC = "topic-1"
PAUSE_SECONDS = 0.0005
IDLE_SECONDS = 0.25
"""A broker that does nothing for so long is waiting for something."""
LINGER_SECONDS = 0.03
LONGEST_ATTACK = 20.0
PIECE = 1 << 18
LARGEST_ANSWER_READ = 1 << 20
OWN = "/proc/thread-self/schedstat"


@dataclass(frozen=True)
class Row:
    attack: Attack
    size: int
    """Of its largest frame."""
    wait: float
    """The healthy client's longest, without the time in which others had the cores; seconds."""
    wall: float
    growth: int
    kept: int
    seconds: float
    answer: str

    @property
    def holds(self) -> bool:
        return self.wait <= MOST_WAIT and self.growth <= MOST_GROWTH

    def better_of(self, other: Row) -> Row:
        best = self if self.wait <= other.wait else other
        return replace(best, growth=min(self.growth, other.growth), kept=min(self.kept, other.kept))


class HealthyClient:
    """Asks for a topic, produces a record, fetches it, in turn. `Lost` when it is not answered at all."""

    def __init__(self, address: str, process: Process):
        self._wire = Wire(address, "healthy")
        self._wire.socket.settimeout(LONGEST_ATTACK)
        self._process = process
        self._turn = 0
        self._offset = 0
        self.longest = self.longest_wall = 0.0
        for _ in range(6):  # what is first asked for is loaded
            self.ask()
        self.longest = self.longest_wall = 0.0

    def ask(self) -> None:
        worked, waited = self._process.worked_and_waited()
        own = scheduled(OWN)[1]
        start = time.perf_counter()
        try:
            self._request()
        except TimeoutError:
            raise Lost(f"not answered for {LONGEST_ATTACK:.0f} s") from None
        wall = time.perf_counter() - start
        worked_now, waited_now = self._process.worked_and_waited()
        taken = waited_now - waited + scheduled(OWN)[1] - own
        self.longest_wall = max(self.longest_wall, wall)
        self.longest = max(self.longest, min(wall, max(worked_now - worked, wall - taken)))

    def _request(self) -> None:
        self._turn += 1
        if self._turn % 3 == 0:
            self._wire.ask(
                MetadataRequest(topics=[MetadataRequest.Topic(name=HEALTHY_TOPIC)], allow_auto_topic_creation=False), 12
            )
        elif self._turn % 3 == 1:
            records = build_batch([Record(0, NOW, b"k", b"v")], base_offset=0)
            self._offset = produce(self._wire, HEALTHY_TOPIC, records, acks=1).base_offset
        else:
            fetch(self._wire, HEALTHY_TOPIC, max(0, self._offset))

    def close(self) -> None:
        self._wire.close()


class Lost(Exception):
    """The healthy client was not answered, or the broker is gone."""


class Attacker:
    """A connection that sends one frame and takes what comes back, as far as it can without waiting."""

    def __init__(self, connection: socket.socket, frame: bytes):
        self._socket = connection
        self._socket.setblocking(False)
        self._left = memoryview(frame)
        self._received = bytearray()
        self.is_closed = False

    def pump(self) -> None:
        try:
            if self._left:
                self._left = self._left[self._socket.send(self._left[:PIECE]) :]
            piece = self._socket.recv(PIECE)
            self._received += piece
            self.is_closed = not piece
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True

    @property
    def answer(self) -> bytes | None:
        if len(self._received) < 4:
            return None
        (size,) = struct.unpack_from(">i", self._received)
        return bytes(self._received[4 : 4 + size]) if len(self._received) >= 4 + size else None

    def close(self) -> None:
        self._socket.close()


class Besieged(Protocol):
    address: str
    process: Process

    def connect(self, api: Api) -> socket.socket:
        """As whoever attacks this API."""
        ...


def carry_out(attack: Attack, target: Besieged) -> Row:
    made = attack.frames()
    process = target.process
    before = process.memory().now
    process.forget_peak()
    start = time.perf_counter()
    answers: list[str] = []
    healthy = HealthyClient(target.address, process)
    lost = ""
    try:
        for frame in made:
            answers.append(one(attack, frame, target, healthy))
    except (Lost, ConnectionError, OSError) as error:
        lost = str(error)
        healthy.longest = healthy.longest_wall = LONGEST_ATTACK
    finally:
        healthy.close()
    seconds = time.perf_counter() - start
    try:
        memory = process.memory()
        growth, kept = memory.peak - before, memory.now - before
    except (OSError, KeyError):
        growth = kept = 0
    said = lost or ", ".join(dict.fromkeys(answers))
    return Row(attack, max(map(len, made)), healthy.longest, healthy.longest_wall, growth, kept, seconds, said)


def one(attack: Attack, frame: bytes, target: Besieged, healthy: HealthyClient) -> str:
    process = target.process
    attacker = Attacker(target.connect(attack.api), frame)
    deadline = time.perf_counter() + LONGEST_ATTACK
    busy_at = time.perf_counter()
    worked = sum(process.worked_and_waited())
    looked_at = busy_at
    try:
        while attacker.answer is None and not attacker.is_closed:
            attacker.pump()
            healthy.ask()
            now = time.perf_counter()
            if now - looked_at > 0.02:
                worked_now = sum(process.worked_and_waited())
                if worked_now - worked > 0.6 * (now - looked_at):
                    busy_at = now
                worked, looked_at = worked_now, now
            if now - busy_at > IDLE_SECONDS:
                break
            if now > deadline:
                return f"not done after {LONGEST_ATTACK:.0f} s"
            time.sleep(PAUSE_SECONDS)
        said = described(attack, attacker)
    finally:
        attacker.close()
    until = time.perf_counter() + LINGER_SECONDS
    while time.perf_counter() < until:
        healthy.ask()
        time.sleep(PAUSE_SECONDS)
    return said


def described(attack: Attack, attacker: Attacker) -> str:
    answer = attacker.answer
    if answer is None:
        return "closed" if attacker.is_closed else "waits"
    if len(answer) > LARGEST_ANSWER_READ:
        return f"{len(answer) / (1 << 20):.1f} MB"
    with suppress(Exception):
        codes = Counter(code for _, code in error_codes(frames.decode_response(attack.api.key, attack.version, answer)[1]))
        return " ".join(f"{error_name(code)}x{times}" for code, times in codes.most_common(2)) or "no code"
    return "?"
