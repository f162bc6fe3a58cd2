"""Hostile files: no traceback, one sentence or finding with file and position, the documented exit code, and no file changed."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from milepost.codec.compression import Codec, compress
from milepost.codec.crc32c import crc32c
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.cli.running import Ran, run
from tests.golden_fixture import Golden
from tests.inspect.logs import TIME, batch, contents, log_of, partition

COMMANDS = [
    ["dump"],
    ["dump", "--json", "--print-data-log"],
    ["dump", "--print-data-log"],
    ["verify"],
    ["verify", "--headers-only"],
    ["repair"],
]
CASES = ["unclean/kafka-3.9.1-killed-after", "old_formats/kafka-2.4.1", "groups/kafka-4.3.0", "compaction/kafka-3.9.1-2b-cleaned"]
IDS = [" ".join(command) for command in COMMANDS]


def ran_well(ran: Ran) -> None:
    """Any documented exit code; an error that ends the program is one sentence."""
    assert ran.code in (0, 1, 2, 3)
    assert not any("Traceback" in line for line in (*ran.lines, *ran.errors))
    if ran.code in (2, 3):
        assert len([line for line in ran.errors if line.startswith("milepost: ")]) == 1


def signed(data: bytearray) -> bytes:
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def batch_with(position: int, data: bytes) -> bytes:
    content = bytearray(batch(0))
    content[position : position + len(data)] = data
    return signed(content)


def bomb(codec: Codec) -> bytes:
    """A small batch that says it holds one record and unpacks to one MB more than is allowed."""
    content = bytearray(batch(0, 1)[:61])
    payload = compress(codec, bytes(129 << 20), 1)
    content[22] = codec
    content[8:12] = (49 + len(payload)).to_bytes(4, "big")
    return signed(content + payload)


LOGS = {
    "empty": b"",
    "one byte": b"\0",
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "text": b"this is not a log\n" * 100,
    "length of 2 GB": batch(0)[:8] + b"\x7f\xff\xff\xff" + batch(0)[12:],
    "negative length": batch(0)[:8] + b"\xff\xff\xff\xff" + batch(0)[12:],
    "unknown magic": batch_with(16, b"\x63"),
    "negative magic": batch_with(16, b"\x80"),
    "unknown codec": batch_with(22, b"\7"),
    "not what the codec says": batch_with(22, b"\4"),
    "two billion records": batch_with(57, b"\x7f\xff\xff\xff"),
    "minus one record": batch_with(57, b"\xff\xff\xff\xff"),
    "offsets up to the end of the world": batch_with(23, b"\x7f\xff\xff\xff"),
    "negative last offset": batch_with(23, b"\x80\0\0\0"),
    "endless varint": batch_with(61, b"\xff" * 20),
    "offset of 2^63 - 1": b"\x7f" + b"\xff" * 7 + batch(0)[8:],
    "garbage behind offset 2^63 - 1": b"\x7f" + b"\xff" * 7 + batch(0)[8:] + b"\xee" * 100 + batch(0),
    "negative offset": b"\xff" * 8 + batch(0)[8:],
    "timestamps at both ends": batch_with(27, b"\x80" + bytes(7) + b"\x7f" + b"\xff" * 7),
    "wrong CRC": batch(0)[:-1] + b"\2",
    "old message with lengths past its end": bytes.fromhex("00000000000000050000001039268c3300007fffffff6b0000000176"),
    "thousand headers that lie": (batch(0)[:61] * 1000),
}


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
@pytest.mark.parametrize("name", LOGS)
def test_a_hostile_log(tmp_path: Path, name: str, command: list[str]) -> None:
    directory = partition(tmp_path, (0, []))
    log_of(directory).write_bytes(LOGS[name])
    before = contents(tmp_path)
    ran_well(run(*command, directory))
    assert contents(tmp_path) == before


# A batch that once had more records than it has now is what compaction leaves.
HARMLESS = ("empty", "offsets up to the end of the world")


@pytest.mark.parametrize("name", [name for name in LOGS if name not in HARMLESS])
def test_verify_finds_what_is_wrong_with_it(tmp_path: Path, name: str) -> None:
    directory = partition(tmp_path, (0, []))
    log_of(directory).write_bytes(LOGS[name])
    ran = run("verify", log_of(directory))
    assert ran.code == 1
    assert ran.lines[0].startswith(f"{log_of(directory)}, position 0: ")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4], ids=lambda codec: codec.name)
def test_a_bomb_is_defused(tmp_path: Path, codec: Codec) -> None:
    directory = partition(tmp_path, (0, []))
    log_of(directory).write_bytes(bomb(codec))
    start = time.thread_time()
    ran = run("verify", log_of(directory))
    assert ran.code == 1
    assert "134217728" in ran.lines[0]
    assert run("dump", "--print-data-log", log_of(directory)).code == 1
    assert time.thread_time() - start < 30


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_in_every_file(golden: Golden, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    case = rng.choice(CASES)
    directory = golden(case, tmp_path) / "logdir"
    for path in sorted(directory.rglob("*")):
        if path.is_file() and rng.random() < 0.3:
            content = bytearray(path.read_bytes())
            kind = rng.randrange(4)
            at = rng.randrange(len(content) + 1)
            if kind == 0:
                content[at:] = b""
            elif kind == 1:
                content[at : at + 50] = rng.randbytes(50)
            elif kind == 2:
                content = bytearray(rng.randbytes(rng.randrange(300)))
            else:
                content[at:at] = bytes(rng.randrange(200))
            path.write_bytes(content)
    before = contents(directory)
    for command in COMMANDS:
        ran_well(run(*command, directory))
    assert contents(directory) == before
    applied = run("repair", "--apply", directory)
    ran_well(applied)
    left = run("verify", "--quiet", directory)
    unrepaired = [line.removeprefix("cannot be repaired: ") for line in applied.lines if line.startswith("cannot be repaired: ")]
    assert sorted(left.lines) == sorted(unrepaired)


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_links_fifos_and_directories_in_the_place_of_files(tmp_path: Path, command: list[str]) -> None:
    directory = partition(tmp_path, (0, [batch(0)]))
    (directory / f"{10:020d}.log").symlink_to("/etc/passwd")
    (directory / f"{10:020d}.index").symlink_to(directory / f"{10:020d}.index")
    os.mkfifo(directory / f"{20:020d}.log")
    os.mkfifo(directory / f"{20:020d}.snapshot")
    (directory / f"{30:020d}.log").mkdir()
    (directory / "partition.metadata").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "recovery-point-offset-checkpoint")
    for path in (directory, tmp_path):
        ran = run(*command, path)
        ran_well(ran)
        assert ran.code == 1
        assert not any("root:" in line for line in ran.lines)


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
@pytest.mark.parametrize("name", ["nothing-0", "fifo", "link"])
def test_a_path_that_cannot_be_used_ends_with_3_and_one_sentence(tmp_path: Path, command: list[str], name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    ran = run(*command, f"{tmp_path}/{name}")
    assert ran.code == 3
    assert ran.lines == []
    assert len(ran.errors) == 1


@pytest.mark.parametrize("command", COMMANDS, ids=IDS)
def test_names_that_say_more_than_an_offset_can(tmp_path: Path, command: list[str]) -> None:
    directory = partition(tmp_path, (0, [batch(0)]))
    (directory / f"{2**63 - 2:020d}.log").write_bytes((2**63 - 2).to_bytes(8, "big") + batch(0)[8:])
    for number in ("9" * 20, "1" * 200):
        for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
            (directory / f"{number}{suffix}").write_bytes(batch(0))
    ran_well(run(*command, directory))


def test_a_deep_or_long_text_file_is_one_finding(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-killed-after", tmp_path) / "logdir"
    (directory / ".kafka_cleanshutdown").write_bytes(b"[" * 100_000)
    (directory / "meta.properties").write_bytes(b"\\\n" * 100_000)
    (directory / "replication-offset-checkpoint").write_bytes(b"9" * 1_000_000)
    for command in COMMANDS:
        ran_well(run(*command, directory))


def test_a_record_of_many_megabytes_is_shown(tmp_path: Path) -> None:
    data = build_batch([Record(0, TIME, None, b"x" * (20 << 20))])
    ran = run("dump", "--print-data-log", log_of(partition(tmp_path, (0, [data]))))
    assert ran.code == 0
    assert len(ran.lines[-1]) > 20 << 20
