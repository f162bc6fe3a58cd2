"""What is asked at the door and in front of it, taken away in turn: producers are told something else then.

The same requests go to a broker as it is, by each way, and to brokers with one guard less: one that nobody would miss fails here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from milepost.broker import dispatch
from milepost.broker.authorizer import Operation
from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.broker.produce import frame_answers, frames, handler
from milepost.codec.compression import Codec
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.protocol.messages import InitProducerIdRequest
from milepost.replica import partition
from milepost.replica.partition import Partition
from milepost.replica.retriable_rejections import RetriableRejections
from milepost.topic_partition import TopicPartition
from tests.broker.conftest import SETTINGS
from tests.broker.produce.replicas import Replicated
from tests.broker.produce.test_transactions import Writer
from tests.broker.produce.ways import batch, produced, received, request_of, send
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire

SILENT_SECONDS = 1.0
"""Who is told nothing for so long is not told anything: only a broker without a guard is that late."""


class DenyClosed:
    """Nobody may write to the topic "closed"."""

    allows_everything = False
    generation = 0

    def denies(self, access: Any, context: Any) -> str | None:
        return "closed" if access.name == "closed" and access.operation is Operation.WRITE else None

    def note_denial(self, access, requester) -> None:
        """The answers say it."""


class Asked:
    """Requests to one broker, each step on a connection whose first request was an ordinary one."""

    def __init__(self, broker: Broker, control: Wire):
        self.broker = broker
        self.control = control
        create(control, wanted("t", 3), wanted("small", max_message_bytes="100"), wanted("closed"))
        create(control, wanted("safe", flush_messages="1"), wanted("r", 5, min_insync_replicas="2"))
        self.writer = Writer(control, "app")

    def step(self, *requests: Any, version: int = 9) -> list[Any]:
        with Wire(self.broker.bootstrap_servers) as wire:
            produced(wire, [request_of({"t": [(2, batch(b"ordinary"))]}, acks=1)], version)
            send(wire, requests, version)
            wire.socket.settimeout(SILENT_SECONDS)
            return [self._told(wire, version) for request in requests if request.acks != 0]

    def _told(self, wire: Wire, version: int) -> Any:
        try:
            return [code for code, _ in received(wire, version)]
        except ConnectionError:
            return "closed"
        except TimeoutError:
            return "silence"

    def replicated(self, number: int, isr: tuple[int, ...] = (1, 2)) -> Replicated:
        return Replicated(self.broker, TopicPartition("r", number), isr)


def one(topic: str, number: int = 0, acks: int = 1, **said: Any) -> Any:
    return request_of({topic: [(number, batch(b"v", **said))]}, acks=acks)


def acks(asked: Asked) -> list[Any]:
    return asked.step(one("t", acks=5), one("t", acks=-2))


def size(asked: Asked) -> list[Any]:
    return asked.step(request_of({"t": [(0, batch(b"x" * 30_000))]}))


def right(asked: Asked) -> list[Any]:
    return asked.step(one("closed"))


def internal(asked: Asked) -> list[Any]:
    return asked.step(one("__transaction_state"))


def twice(asked: Asked) -> list[Any]:
    return asked.step(request_of([("t", [(0, batch(b"v"))]), ("t", [(0, batch(b"v"))])]))


def old_version(asked: Asked) -> list[Any]:
    return asked.step(one("t", codec=Codec.ZSTD), version=6)


def refused(asked: Asked) -> list[Any]:
    return asked.step(request_of({"t": [(0, batch(b"v"))], "small": [(0, batch(b"x" * 200))]}))


def silent(asked: Asked) -> list[Any]:
    """An answer that nobody asked for would be taken for that to the second request."""
    return asked.step(one("safe", acks=0), request_of({"t": [(0, batch(b"v")), (1, batch(b"v"))]}, acks=1))


def silent_and_refused(asked: Asked) -> list[Any]:
    return asked.step(request_of({"small": [(0, batch(b"x" * 200))]}, acks=0), one("t"))


def led(asked: Asked) -> list[Any]:
    asked.replicated(0).follow()
    return asked.step(one("r", 0))


def fenced(asked: Asked) -> list[Any]:
    asked.replicated(1).is_fenced = True
    return asked.step(one("r", 1))


def enough_replicas(asked: Asked) -> list[Any]:
    asked.replicated(2, isr=(1,))
    return asked.step(one("r", 2, acks=-1))


def refused_before(asked: Asked) -> list[Any]:
    replicated = asked.replicated(3)
    producer = asked.control.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)

    def numbered(sequence: int) -> Any:
        said = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        return one("r", 3, base_sequence=sequence, **said)

    found = asked.step(numbered(0))
    replicated.is_fenced = True
    found += asked.step(numbered(1))
    replicated.is_fenced = False
    return found + asked.step(numbered(2))


def follower(asked: Asked) -> list[Any]:
    asked.replicated(4)
    return asked.step(request_of({"r": [(4, batch(b"v"))]}, acks=-1, timeout_ms=50))


def first_of_a_transaction(asked: Asked) -> list[Any]:
    asked.writer.add(0)
    return asked.step(asked.writer.request(0), asked.writer.request(1))


def not_in_the_transaction(asked: Asked) -> list[Any]:
    data = asked.writer.batch(0)
    return asked.step(request_of({"t": [(1, data)]}, transactional_id="app"))


def without_transactional_id(asked: Asked) -> list[Any]:
    writer = Writer(asked.control, "second")
    writer.add(0)
    return asked.step(writer.request(0, transactional_id="second"), writer.request(1, transactional_id=None))


STEPS: list[Callable[[Asked], list[Any]]] = [
    acks, size, right, internal, twice, old_version, refused, silent, silent_and_refused, led, fenced, enough_replicas, refused_before,
    follower, first_of_a_transaction, not_in_the_transaction, without_transactional_id,
]  # fmt: skip

EXPECTED = {
    "acks": [[21], [21]],
    "size": ["closed"],
    "right": [[0]],
    "internal": [[17]],
    "twice": [[0]],
    "old_version": [[76]],
    "refused": [[0, 10]],
    "silent": [[0, 0]],
    "silent_and_refused": ["closed"],
    "led": [[6]],
    "fenced": [[6]],
    "enough_replicas": [[19]],
    "refused_before": [[0], [6], [6]],
    "follower": [[7]],
    "first_of_a_transaction": [[0], [0]],
    "not_in_the_transaction": [[48]],
    "without_transactional_id": [[0], [48]],
}


def told(directory: Path, steps: list[Callable[[Asked], list[Any]]] = STEPS, **given: Any) -> dict[str, list[Any]]:
    settings = {"log.dirs": str(directory), "socket.request.max.bytes": "20000", **SETTINGS}
    with Life(AloneBroker({**settings, "broker.id": "1"}, **given)) as broker, Wire(broker.bootstrap_servers) as control:
        asked = Asked(broker, control)
        return {step.__name__: step(asked) for step in steps}


def test_broker_with_all_of_its_guards(way, tmp_path):
    assert told(tmp_path) == EXPECTED


def nothing(*given: Any, **named: Any) -> None:
    pass


def mutated(module: ModuleType, old: str, new: str) -> ModuleType:
    """The plain twin of a module with another text somewhere."""
    path = Path(module.__file__).parent / f"{module.__name__.rpartition('.')[2]}.py"
    source = path.read_text()
    assert source.count(old) == 1, f"{path}: {old!r} is there {source.count(old)} times"
    changed = ModuleType(module.__name__)
    exec(compile(source.replace(old, new), str(path), "exec"), changed.__dict__)
    return changed


IS_LED = "leadership is None or (not self.has_one_replica and (self.is_suspended or self._is_fenced()))"


def door(test: str) -> Any:
    return mutated(partition, IS_LED, test).Partition.append


OF_THE_DOOR = {
    "led": lambda patch: patch.setattr(Partition, "append", door("self.is_suspended or self._is_fenced()")),
    "fenced": lambda patch: patch.setattr(Partition, "append", door("leadership is None")),
    "enough_replicas": lambda patch: patch.setattr(Partition, "_ensure_enough_replicas", nothing),
    "refused_before": lambda patch: patch.setattr(RetriableRejections, "check", nothing),
    "follower": lambda patch: [patch.setattr(module, "has_to_wait", lambda *given: False) for module in (frame_answers, handler)],
    "not_in_the_transaction": lambda patch: [
        patch.setattr(ProducerStateManager, "has_open_transaction", lambda *given: True),
        patch.setattr(ProducerStateManager, "check_verification", nothing),
    ],
}


@pytest.mark.parametrize("guard", OF_THE_DOOR)
def test_door_without_one_of_its_guards(way, guard, tmp_path, monkeypatch):
    OF_THE_DOOR[guard](monkeypatch)
    (step,) = [step for step in STEPS if step.__name__ == guard]
    assert told(tmp_path, [step])[guard] != EXPECTED[guard]


def test_right_is_asked_for_on_each_way(way, tmp_path):
    assert told(tmp_path, [right], authorizer=DenyClosed()) == {"right": [[29]]}


def test_frames_that_do_not_ask_for_the_right(tmp_path, monkeypatch):
    asked = "if self._writer is not None and not self._writer.may_write(known.name):"
    monkeypatch.setattr(dispatch, "ProduceFrames", mutated(frames, asked, "if False:").ProduceFrames)
    assert told(tmp_path, [right], authorizer=DenyClosed()) != {"right": [[29]]}


OF_THE_FRAMES = {
    "acks": ("return -1 <= self.acks <= 1", "return True"),
    "size": ("or size > most or", "or"),
    "internal": ("if known is None or known.is_internal:", "if known is None:"),
    "twice": ("return len(self.batches) == 1 or", "return True or"),
    "old_version": ("if flags & CODEC_MASK == ZSTD and self.version < ZSTD_SINCE:", "if False:"),
    "refused": ("if not reader.append() or alone:", "if [reader.append()] and alone:"),
    "silent": ("if reader.acks:\n                    answers", "if True:\n                    answers"),
    "silent_and_refused": ("if alone or answer.is_last:", "if alone:"),
    "follower": ("if for_all and not partition.has_one_replica and partition.has_followers:", "if False:"),
    "first_of_a_transaction": ("return self._is_transactional and log.producers.has_open_transaction(", "return True or ("),
    "without_transactional_id": ("return self._is_transactional and log", "return log"),
}


@pytest.mark.parametrize("guard", OF_THE_FRAMES)
def test_frames_without_one_of_their_guards(guard, tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "ProduceFrames", mutated(frames, *OF_THE_FRAMES[guard]).ProduceFrames)
    (step,) = [step for step in STEPS if step.__name__ == guard]
    assert told(tmp_path, [step])[guard] != EXPECTED[guard]
