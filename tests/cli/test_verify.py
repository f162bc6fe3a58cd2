"""`milepost verify`: one line per finding and exit code 1, or a summary and exit code 0."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.running import run
from tests.golden_fixture import Golden
from tests.inspect.logs import batch, log_of, partition


def test_a_directory_in_order_gives_one_line_and_0(golden: Golden) -> None:
    assert run("verify", golden("page_visits/kafka-3.9.1") / "logdir") == (
        0,
        ["5 partitions, 13 segments, 167 batches, 1,224 records, 82,433 bytes: no findings, 0 notes"],
        [],
    )


def test_a_finding_is_one_line_and_1(golden: Golden) -> None:
    directory = golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0")
    ran = run("verify", "--quiet", directory)
    assert ran.code == 1
    assert len(ran.lines) == 1
    assert ran.lines[0].startswith(f"{directory}/00000000000000000094.log, position 1144: bytes 1144 to 1354 are no valid batch")


def test_notes_are_marked_and_do_not_change_the_exit_code(golden: Golden) -> None:
    ran = run("verify", golden.partition("unclean/kafka-3.9.1-torn-before", "crash-0"))
    assert ran.code == 0
    assert [line.startswith("note: ") for line in ran.lines] == [True, True, True, False]


def test_json_has_an_object_per_finding_and_one_with_the_counts(golden: Golden) -> None:
    ran = run("verify", "--json", golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0"))
    found = [json.loads(line) for line in ran.lines]
    assert [line["type"] for line in found] == ["finding", "note", "note", "summary"]
    assert (found[0]["position"], found[0]["repairable"]) == (1144, True)
    assert (found[-1]["segments"], found[-1]["findings"], found[-1]["notes"]) == (4, 1, 2)


def test_headers_alone_do_not_look_at_records(tmp_path: Path) -> None:
    from milepost.codec.crc32c import crc32c

    data = bytearray(batch(0))
    data[61] = 0x7E  # the length of the first record
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    path = log_of(partition(tmp_path, (0, [bytes(data)])))
    assert run("verify", path).code == 1
    assert run("verify", "--headers-only", path).code == 0


def test_several_paths_are_counted_together(tmp_path: Path) -> None:
    first, second = partition(tmp_path, (0, [batch(0)])), partition(tmp_path, (0, [batch(0), batch(2)]), name="t-1")
    assert run("verify", first, second).lines == ["2 partitions, 2 segments, 3 batches, 6 records, 249 bytes: no findings, 0 notes"]


def test_a_hostile_name_cannot_forge_a_line(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0)]))
    (directory / "x\nall fine").write_bytes(b"")
    assert any("x\\x0aall fine" in line for line in run("verify", directory).lines)
