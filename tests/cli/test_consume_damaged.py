"""`milepost consume` of a partition with a damaged batch: what is sound comes, the error names where it goes on, and there is a way to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.kinds.attached import AttachedBroker
from milepost.broker.lifecycle import Life
from milepost.log.open import open_log
from tests.cli.running import Ran, run
from tests.inspect.logs import batch

SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}
LOG = f"{0:020d}.log"

# What is changed in the header or the body of the batch with offsets 100 to 109 (byte, and by what), and where reading goes on.
# A broker that cannot step over a batch, because its size is wrong, goes on where its index next leads to: the end of the next batch.
DAMAGE = {
    "a changed record": (80, 0xFF, 110),
    "a size that is too small": (11, 0x9C, 119),
    "a size that is negative": (8, 0x80, 119),
    "a size beyond the file": (8, 0x01, 119),
    "an unknown magic": (16, 0x08, 110),
    "an offset behind the end of the log": (5, 0x01, 110),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Offsets 0 to 299 in batches of ten, closed cleanly; an index entry for each batch."""
    with open_log(str(tmp_path / "data" / "t-0"), "a", {"index.interval.bytes": "1"}) as log:
        for _ in range(30):
            log.append_as_leader(batch(0, 10))
    (tmp_path / "data" / ".kafka_cleanshutdown").write_bytes(b"")
    return tmp_path / "data"


def damage(data: Path, kind: str) -> int:
    """Where reading goes on."""
    byte, change, following = DAMAGE[kind]
    content = bytearray((data / "t-0" / LOG).read_bytes())
    content[10 * len(batch(0, 10)) + byte] ^= change
    (data / "t-0" / LOG).write_bytes(content)
    return following


@contextmanager
def served(data: Path, how: str) -> Iterator[Broker]:
    made = AttachedBroker([str(data)], SETTINGS) if how == "attach" else AloneBroker({**SETTINGS, "log.dirs": str(data)})
    with Life(made) as broker:
        yield broker


def consume(broker: Broker, *arguments: object) -> Ran:
    address = ("--bootstrap-server", broker.bootstrap_servers)
    return run("consume", "t", "--print", "offset", "--timeout", "1", *arguments, *address)


def offsets(*ranges: range) -> list[str]:
    return [str(offset) for each in ranges for offset in each]


@pytest.mark.parametrize("how", ["serve", "attach"])
@pytest.mark.parametrize("kind", list(DAMAGE))
def test_what_is_sound_comes_and_the_error_says_where_it_goes_on(data: Path, kind: str, how: str) -> None:
    following = damage(data, kind)
    with served(data, how) as broker:
        ran = consume(broker, "--from-beginning")
        assert (ran.code, ran.lines) == (4, offsets(range(100)))
        [error] = ran.errors
        assert f"offsets 100 to {following - 1} of t-0 cannot be read, {following} is the next that can" in error
        assert "--skip-damaged goes on there" in error
        ran = consume(broker, "--offset", following)
        assert (ran.code, ran.lines) == (0, offsets(range(following, 300)))


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_on_past_it_when_asked(data: Path, kind: str) -> None:
    following = damage(data, kind)
    with served(data, "attach") as broker:
        ran = consume(broker, "--from-beginning", "--skip-damaged")
    assert (ran.code, ran.lines) == (0, offsets(range(100), range(following, 300)))
    [warning] = ran.errors
    assert warning.startswith("warning: ")
    assert f"offsets 100 to {following - 1} of t-0 cannot be read, {following} is the next that can" in warning


@pytest.mark.parametrize("how", ["serve", "attach"])
def test_damage_that_the_start_found_is_answered_as_corrupt_and_named_as_well(data: Path, how: str) -> None:
    damage(data, "a changed record")
    (data / ".kafka_cleanshutdown").unlink()
    with served(data, how) as broker:
        ran = consume(broker, "--from-beginning")
        assert (ran.code, ran.lines) == (4, offsets(range(100)))
        assert "fetch of t-0 at offset 100: the broker answers CORRUPT_MESSAGE (2)" in ran.errors[0]
        assert "offsets 100 to 109 of t-0 cannot be read, 110 is the next that can" in ran.errors[0]
        ran = consume(broker, "--from-beginning", "--skip-damaged", "--max-messages", 105)
        assert ran.lines == offsets(range(100), range(110, 115))


def test_damage_with_nothing_readable_behind_it_says_so(data: Path) -> None:
    path = data / "t-0" / LOG
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)
    with served(data, "serve") as broker:
        ran = consume(broker, "--from-beginning", "--skip-damaged")
    assert (ran.code, ran.lines) == (4, offsets(range(290)))
    assert "offsets 290 to 299 of t-0 cannot be read, and nothing behind them can" in ran.errors[0]
