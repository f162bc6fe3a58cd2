"""A dump as text, in the very words of kafka-dump-log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from milepost.codec.compression import Codec
from milepost.codec.crc32c import crc32c
from milepost.files import Disk
from milepost.inspect.dump.dump import Dump, Options
from milepost.inspect.dump.dump_text import TextView
from milepost.log.producer_state.snapshot import SnapshotEntry, encode_snapshot
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, control_key, end_transaction_batch
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from tests.golden_fixture import Golden, all_partitions, kafka_version
from tests.inspect.logs import TIME, batch, log_of, partition

INTERNAL = [
    (case, name)
    for case, name in all_partitions("groups", "transactions")
    if name.startswith("__") and kafka_version(case) != "2.4.1"
]
# The worked example of the format: two records, leader epoch 7, base offset 100.
WORKED = bytes.fromhex(
    "0000000000000064 0000004c 00000007 02 32deae19 0000 00000001 0000018bcfe56800 0000018bcfe56805 ffffffffffffffff ffff ffffffff"
    "00000002 14000000046b310476310 01e000a02010a68656c6c6f0202680278".replace(" ", "")
)


def dumped(path: Path, options: Options | None = None) -> tuple[list[str], list[str]]:
    """The lines of the dump, and the remarks."""
    lines: list[str] = []
    remarks: list[str] = []
    view = TextView(options or Options(), lines.append, remarks.append)
    Dump(Disk(), options or Options(), view).path(str(path))
    view.finish()
    return lines, remarks


def lines_of(path: Path, **options: object) -> list[str]:
    return dumped(path, Options(**options))[0]  # type: ignore[arg-type]


def partitions_sorted(line: str) -> str:
    """3.9.1 prints the partitions of a transaction in the order of a hash set."""
    return re.sub(r"partitions=\[(.*?)\]", lambda match: f"partitions=[{','.join(sorted(match[1].split(',')))}]", line)


@pytest.mark.parametrize(("case", "name"), INTERNAL, ids=[f"{case}/{name}" for case, name in INTERNAL])
@pytest.mark.parametrize("decoder", ["auto", "by flag"])
def test_internal_topics_are_dumped_in_the_literal_words_of_the_tool(golden: Golden, case: str, name: str, decoder: str) -> None:
    directory = golden.partition(case, name)
    chosen = "auto" if decoder == "auto" else "offsets" if name.startswith("__consumer") else "transaction-log"
    tool = "3.9" if kafka_version(case) == "3.9.1" else "4.3"
    lines = [line for path in sorted(directory.glob("*.log")) for line in lines_of(path, print_data_log=True, decoder=chosen, tool=tool)]
    # The tool was run beside the directory.
    lines = [line.replace(f"Dumping {directory.parent}/", "Dumping ./") for line in lines]
    expected = golden.decoded_text(case, name).splitlines()
    assert [partitions_sorted(line) for line in lines] == [partitions_sorted(line) for line in expected]


def test_the_worked_batch_reads_as_in_the_specification(tmp_path: Path) -> None:
    directory = partition(tmp_path, (100, [WORKED]))
    path = log_of(directory, 100)
    assert lines_of(path, print_data_log=True) == [
        f"Dumping {path}",
        "Log starting offset: 100",
        "baseOffset: 100 lastOffset: 101 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: 7 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 "
        "CreateTime: 1700000000005 size: 88 magic: 2 compresscodec: none crc: 853454361 isvalid: true",
        "| offset: 100 CreateTime: 1700000000000 keySize: 2 valueSize: 2 sequence: -1 headerKeys: [] key: k1 payload: v1",
        "| offset: 101 CreateTime: 1700000000005 keySize: -1 valueSize: 5 sequence: -1 headerKeys: [h] payload: hello",
    ]


def test_records_without_their_content_and_content_without_the_rest(tmp_path: Path) -> None:
    path = log_of(partition(tmp_path, (100, [WORKED])), 100)
    assert lines_of(path, deep_iteration=True)[3] == (
        "| offset: 100 CreateTime: 1700000000000 keySize: 2 valueSize: 2 sequence: -1 headerKeys: []"
    )
    assert lines_of(path, print_data_log=True, skip_record_metadata=True)[3:] == ["| key: k1 payload: v1", " payload: hello"]
    assert len(lines_of(path)) == 3


def test_an_old_message_has_its_own_line_with_the_tools_stray_brace(tmp_path: Path) -> None:
    """The two examples of the specification: offset 5, key k, value v."""
    v0 = bytes.fromhex("0000000000000005 00000010 1fecd70a 00 00 00000001 6b 00000001 76".replace(" ", ""))
    v1 = bytes.fromhex("0000000000000006 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76".replace(" ", ""))
    path = log_of(partition(tmp_path, (5, [v0 + v1])), 5)
    assert lines_of(path, print_data_log=True)[2:] == [
        "offset: 5 position: 0 NoTimestampType: -1 size: 28 magic: 0 compresscodec: none crc: 535615242 isvalid: true",
        "| offset: 5 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: true crc: 535615242} key: k payload: v",
        "offset: 6 position: 28 CreateTime: 1700000000000 size: 36 magic: 1 compresscodec: none crc: 958827571 isvalid: true",
        "| offset: 6 CreateTime: 1700000000000 keySize: 1 valueSize: 1 isValid: true crc: 958827571} key: k payload: v",
    ]


def test_a_compressed_old_set_shows_every_message_with_its_own_checksum(tmp_path: Path) -> None:
    records = [Record(offset, TIME + offset, b"k", b"v") for offset in range(3)]
    wrapper = build_legacy(records, magic=1, codec=Codec.GZIP)
    lines = lines_of(log_of(partition(tmp_path, (0, [wrapper]))), deep_iteration=True)
    assert lines[2].startswith(f"offset: 2 position: 0 CreateTime: {TIME + 2} size: ")
    assert [re.match(r"\| offset: (\d+) .* isValid: true crc: \d+}$", line)[1] for line in lines[3:]] == ["0", "1", "2"]


def test_control_records_say_what_they_are_and_never_show_bytes(tmp_path: Path) -> None:
    marker = end_transaction_batch(
        EndTransactionMarker(ControlType.COMMIT, 3), offset=0, timestamp=TIME, producer_id=4000, producer_epoch=2
    )
    leader_change = build_batch([Record(1, TIME, control_key(ControlType.LEADER_CHANGE), b"\0\0")], is_control=True)
    unknown = build_batch([Record(2, TIME, b"\0\0\0\x2a", b"")], is_control=True)
    broken = build_batch([Record(3, TIME, b"\0", b"")], is_control=True)
    lines = lines_of(log_of(partition(tmp_path, (0, [marker, leader_change, unknown, broken]))), print_data_log=True)
    tails = [line.partition("headerKeys: []")[2] for line in lines if line.startswith("|")]
    assert tails[:3] == [" endTxnMarker: COMMIT coordinatorEpoch: 3", " controlType: LEADER_CHANGE(2)", " controlType: UNKNOWN(42)"]
    assert tails[3].startswith(" controlType: <control record key of 1 bytes")


def test_control_characters_cannot_forge_lines_or_move_the_cursor(tmp_path: Path) -> None:
    record = Record(0, TIME, b"a\nb", b"\x1b[2J\x9b\xc2\x9b\x00", (("x\ny", None),))
    line = lines_of(log_of(partition(tmp_path, (0, [build_batch([record])]))), print_data_log=True)[3]
    assert line.endswith(r"headerKeys: [x\x0ay] key: a\x0ab payload: \x1b[2J�\x9b\x00")


def test_a_tombstone_and_a_null_key_leave_their_part_out(tmp_path: Path) -> None:
    records = [Record(0, TIME, b"k", None), Record(1, TIME, None, None)]
    lines = lines_of(log_of(partition(tmp_path, (0, [build_batch(records)]))), print_data_log=True)
    assert lines[3].endswith("keySize: 1 valueSize: -1 sequence: -1 headerKeys: [] key: k")
    assert lines[4].endswith("keySize: -1 valueSize: -1 sequence: -1 headerKeys: []")


def test_a_delete_horizon_and_a_producer_are_shown(tmp_path: Path) -> None:
    data = build_batch(
        [Record(0, TIME, b"k", None)],
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        delete_horizon_ms=1_700_086_400_000,
        codec=Codec.ZSTD,
    )
    line = lines_of(log_of(partition(tmp_path, (0, [data]))))[2]
    assert "baseSequence: 9 lastSequence: 9 producerId: 7 producerEpoch: 1" in line
    assert "deleteHorizonMs: OptionalLong[1700086400000]" in line
    assert "compresscodec: zstd" in line


def test_bytes_behind_the_last_batch_are_counted(golden: Golden) -> None:
    path = golden.partition("unclean/kafka-3.9.1-torn-before", "crash-0") / f"{94:020d}.log"
    assert lines_of(path)[-1] == "Found 123 invalid bytes at the end of 00000000000000000094.log"


def test_damage_in_the_middle_is_said_and_passed_over(tmp_path: Path) -> None:
    path = log_of(partition(tmp_path, (0, [batch(0), b"\xee" * 50, batch(2)])))
    lines = lines_of(path)
    assert lines[3] == "Found 50 invalid bytes at position 83 of 00000000000000000000.log; the next batch starts at 133"
    assert lines[4].startswith("baseOffset: 2 ")


def test_an_unknown_codec_is_shown_by_its_number_and_its_records_are_not(tmp_path: Path) -> None:
    data = bytearray(batch(0))
    data[22] = 6
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    lines, remarks = dumped(log_of(partition(tmp_path, (0, [bytes(data)]))), Options(deep_iteration=True))
    assert "compresscodec: unknown(6)" in lines[2]
    assert len(lines) == 3
    assert "cannot be read" in remarks[0]
    assert "compression codec 6" in remarks[0]


def test_non_consecutive_offsets_are_remarked_at_the_end(tmp_path: Path) -> None:
    path = log_of(partition(tmp_path, (0, [batch(0), batch(5)])))
    assert dumped(path, Options(deep_iteration=True))[1] == [f"Non-consecutive offsets in {path}", "  1 is followed by 5"]


def test_an_offset_index_and_its_mismatches(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]))
    path = directory / f"{0:020d}.index"
    path.write_bytes(bytes.fromhex("00000003 00000053 00000004 000000a6 00000009 00000200".replace(" ", "")))
    assert dumped(path) == (
        [f"Dumping {path}", "offset: 3 position: 83", "offset: 4 position: 166", "offset: 9 position: 512"],
        [f"Mismatches in :{path}", "  Index offset: 4, log offset: 5", "  Index offset: 9, log offset: -1"],
    )


def test_an_empty_offset_index_says_so_and_an_empty_time_index_says_nothing(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, []))
    index, times = directory / f"{0:020d}.index", directory / f"{0:020d}.timeindex"
    assert dumped(index) == ([f"Dumping {index}", f"{index} is empty."], [])
    assert dumped(times) == ([f"Dumping {times}"], [])


def test_a_time_index_and_what_the_tool_remarks_about_it(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]))
    path = directory / f"{0:020d}.timeindex"
    entries = [(TIME + 1, 1), (TIME, 3), (TIME + 9, 4), (TIME + 10, 77)]
    path.write_bytes(b"".join(time.to_bytes(8, "big") + offset.to_bytes(4, "big") for time, offset in entries))
    lines, remarks = dumped(path)
    assert lines[1:] == [f"timestamp: {time} offset: {offset}" for time, offset in entries]
    assert remarks == [
        f"Found timestamp mismatch in :{path}",
        f"  Index timestamp: {TIME}, log timestamp: {TIME + 3}",
        f"Found out of order timestamp in :{path}",
        f"  Index timestamp: {TIME}, Previously indexed timestamp: {TIME + 1}",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 4, found log offset: 5",
        "Indexed offset: 77, found log offset: -1",
    ]


def test_aborted_transactions_and_producers_of_a_golden_log(golden: Golden) -> None:
    directory = golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0")
    assert lines_of(directory / f"{0:020d}.txnindex")[1:] == [
        "version: 0 producerId: 2 firstOffset: 1 lastOffset: 9 lastStableOffset: 0",
        "version: 0 producerId: 2 firstOffset: 23 lastOffset: 24 lastStableOffset: 25",
    ]
    snapshot = golden.partition("transactions/kafka-3.9.1", "tx-0") / f"{5:020d}.snapshot"
    assert lines_of(snapshot)[1:] == [
        "producerId: 0 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[3] lastTimestamp: 1700000000172 "
        "firstSequence: 0 lastSequence: 1 lastOffset: 4 offsetDelta: 1 timestamp: 1700000000172"
    ]


def test_a_producer_without_a_batch_ends_in_the_tools_trailing_space(tmp_path: Path) -> None:
    path = partition(tmp_path, (0, [])) / f"{7:020d}.snapshot"
    path.write_bytes(encode_snapshot([SnapshotEntry(1, 0, -1, -1, 0, TIME, 3, None)]))
    assert lines_of(path)[1] == (
        f"producerId: 1 producerEpoch: 0 coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: {TIME} "
    )


def test_a_damaged_small_file_is_one_remark_and_the_rest_is_shown(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0)]))
    (directory / f"{2:020d}.snapshot").write_bytes(b"\0\1nonsense")
    (directory / "leader-epoch-checkpoint").write_text("seven\n")
    lines, remarks = dumped(directory)
    assert len(remarks) == 2
    assert any(remark.startswith(f"{directory}/{2:020d}.snapshot: ") for remark in remarks)
    assert any("leader-epoch-checkpoint, line 1: 'seven' is not a number" in remark for remark in remarks)
    assert any(line.startswith("baseOffset: 0 ") for line in lines)


def test_a_file_of_no_known_kind_is_ignored_by_name(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0)]))
    (directory / "notes.txt").write_text("x")
    assert dumped(directory)[1] == [f"Ignoring unknown file {directory}/notes.txt"]
