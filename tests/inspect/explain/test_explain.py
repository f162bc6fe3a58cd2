"""What an explanation says: steps, answer and neighbours, on directories that Kafka wrote and on logs made here."""

from __future__ import annotations

import json

import pytest

from milepost import Record, open_log
from milepost.clock import ManualClock
from milepost.errors import InvalidArgument, KafkaStorage
from milepost.inspect.explain.explain import explain
from milepost.inspect.explain.explain_json import explanation_as_json
from milepost.inspect.explain.explain_text import WIDTH, explanation_as_text, sections_as_lines
from milepost.inspect.opening import open_partition
from tests.golden_fixture import all_cases, index

ARTICLES = "articles/kafka-3.9.1"


@pytest.fixture
def asked(golden):
    """`asked(case, partition, offset=…)`: the explanation of one lookup in a golden directory."""

    def ask(case, partition, **question):
        with open_log(str(golden.partition(case, partition))) as log:
            return explain(log, **question)

    return ask


def text_of(explanation):
    return "\n".join(sections_as_lines(explanation_as_text(explanation)))


def reasons(explanation):
    return [(candidate.candidate, candidate.offset, candidate.reason) for candidate in explanation.why_not]


def test_offset_between_two_entries_is_walked_to_from_the_lower_one(asked):
    explanation = asked(ARTICLES, "topic-log-0", offset=23)
    assert explanation_as_json(explanation)["steps"] == [
        {
            "step": "segment",
            "rule": "floor",
            "base_offset": 0,
            "next_base_offset": None,
            "largest_timestamp": None,
            "compared": 1,
        },
        {
            "step": "index",
            "index": "offset",
            "file": "00000000000000000000.index",
            "entries": 5,
            "target": 23,
            "probes": [[0, 6], [2, 22], [3, 26]],
            "pages": 1,
            "warm": True,
            "slot": 2,
            "entry": {"offset": 22, "position": 656},
            "previous_entry": {"offset": 14, "position": 459},
            "next_entry": {"offset": 26, "position": 838},
        },
        {
            "step": "scan",
            "file": "00000000000000000000.log",
            "start_position": 656,
            "position": 838,
            "bytes_skipped": 182,
            "batches_skipped": 1,
            "records_rejected": 0,
        },
    ]
    assert reasons(explanation) == [
        ("record before", 22, "its offset is below 23"),
        ("record after", 24, "is not below 23 either, but 23 comes first"),
        ("offset entry before", 14, "is right too, but lies 197 bytes further back"),
        ("offset entry after", 26, "its batch ends at 26, past 23, and might begin past it too"),
    ]


def test_whole_text_of_a_lookup_by_offset(asked):
    assert text_of(asked(ARTICLES, "lookup-268-0", offset=268)) == """\
Where in lookup-268-0 is offset 268?
   The log holds offsets 0 to 289 in 2 segments, 7,036 bytes.

1  Segment 251
   Number 2 of 2: the last whose base offset is not above 268; there is none behind it.

2  Offset index 00000000000000000251.index
   Looked for offset 268, relative 268 - 251 = 17, among 5 entries. Probed slots 0 (13), 2 (25),
   1 (20).
   3 probes in 1 page: the warm section (the last 8,192 bytes) is the whole index, and answered.

         slot          offset      position
          → 0             264           481   the last one not past 268
            1             271          1102   past 268

3  Walk through 00000000000000000251.log
   From byte 481: 1 batch skipped (621 bytes), then 3 records rejected inside the batch at byte
   1102.

4  Answer
   It is offset 268 in segment 251, in the batch at byte 1102; its timestamp is 1700000003100
   (2023-11-14T22:13:23.100Z).

Why not its neighbours
   record before, offset 267    its offset is below 268
   record after, offset 269     is not below 268 either, but 268 comes first
   offset slot 1 (271 → 1102)   its batch ends at 271, past 268, and might begin past it too"""


def test_offset_before_the_first_entry_starts_at_the_beginning_of_the_segment(asked):
    explanation = asked(ARTICLES, "lookup-268-0", offset=3)
    text = text_of(explanation)
    assert "Number 1 of 2: the last whose base offset is not above 3; the next one starts at 251." in text
    assert "→ none" in text
    assert "all entries are past it: from the segment's start" in text
    assert explanation_as_json(explanation)["steps"][1]["entry"] is None


def test_time_goes_through_both_indexes_and_says_its_unit(asked):
    explanation = asked(ARTICLES, "lookup-268-0", time=1700000003100, unit="epoch milliseconds")
    text = text_of(explanation)
    assert text.startswith("Where in lookup-268-0 is the first record from 2023-11-14T22:13:23.100Z on?")
    assert "The time was understood as epoch milliseconds; Kafka keeps it as 1700000003100." in text
    steps = explanation_as_json(explanation)["steps"]
    assert [step["step"] for step in steps] == ["segment", "index", "index", "scan"]
    assert steps[0]["compared"] == 2
    assert steps[0]["largest_timestamp"] == 1700000003310
    assert steps[1]["entry"] == {"timestamp": 1700000003060, "offset": 264}
    assert steps[2]["entry"] == {"offset": 264, "position": 481}
    assert explanation.answer.offset == 268
    assert reasons(explanation)[:3] == [
        ("record before", 267, "is 10 ms too old"),
        ("record after", 269, "is not older either, but 268 comes first"),
        ("time entry after", 271, "is newer than asked: the record looked for may come before offset 271"),
    ]


def test_neighbour_in_the_segment_before_is_found(asked):
    explanation = asked(ARTICLES, "lookup-268-0", offset=251)
    before = explanation.why_not[0]
    assert (before.offset, before.segment, before.position) == (250, 0, 3860)


def test_first_record_of_a_log_has_nothing_before_it(asked):
    assert reasons(asked(ARTICLES, "topic-log-0", offset=0))[0] == ("record after", 1, "is not below 0 either, but 0 comes first")


def test_later_record_that_is_older_is_named_as_such(asked):
    # Kafka's own offsets and times of this log: 5 is 1700000001803, 6 is 1700000001226.
    explanation = asked("edges/kafka-3.9.1", "out-of-order-0", time=1700000001500)
    assert explanation.answer.offset == 5
    assert ("record after", 6, "is 274 ms too old, although it comes later: timestamps need not rise") in reasons(explanation)


def test_nothing_that_new_names_the_largest_timestamp(asked):
    explanation = asked(ARTICLES, "lookup-268-0", time=1700000003311)
    assert explanation.answer is None
    assert explanation.conclusion == (
        "Nothing is that new: the largest timestamp of the log is 1700000003310 (2023-11-14T22:13:23.310Z), at offset 289."
    )


def test_offset_past_the_end_names_the_log_end(asked):
    explanation = asked(ARTICLES, "lookup-268-0", offset=290)
    assert explanation.answer is None
    assert explanation.conclusion == "Nothing is at or after 290: the log ends at 290, the next offset to be written."


def test_offset_below_the_log_start_is_looked_up_at_the_log_start(asked):
    explanation = asked("log_start/kafka-3.9.1", "delete-records-0", offset=3)
    assert (explanation.question.offset, explanation.question.target, explanation.answer.offset) == (3, 21, 21)
    text = text_of(explanation)
    assert "Offset 3 lies below the log start 21, so the lookup starts at 21." in text
    assert ("record before", 20, "lies below the log start 21: deleted, though its bytes are still there") in reasons(explanation)


def test_log_emptied_by_delete_records_has_nothing_to_find(asked):
    explanation = asked("log_start/kafka-3.9.1", "delete-records-2", offset=3)
    assert explanation.conclusion == "Nothing to find: the log is empty, its next offset is 66."


def test_offset_that_cleaning_removed_leads_to_the_next_one_kept(asked):
    # Kafka kept 1, 13, 14, … ; the batch 12-16 lies at byte 80.
    explanation = asked("compaction/kafka-3.9.1-1b-cleaned", "kv-0", offset=5)
    assert explanation.conclusion == (
        "Offset 5 is not there any more; the first record after it is offset 13 in segment 0, in the batch at byte 80."
    )


def test_batch_that_lost_the_records_asked_for_is_passed_by(asked):
    # The batch 17-21 at byte 256 kept only 19; 20 and 21 are gone, so 20 is answered by 24 in the next batch.
    explanation = asked("compaction/kafka-3.9.1-1b-cleaned", "kv-0", offset=20)
    assert explanation.answer.offset == 24
    text = " ".join(text_of(explanation).split())
    assert "inside the batch at byte 256. Cleaning took what was wanted from it; the next record is in the batch at byte 350." in text


def test_record_before_is_found_behind_batches_that_cleaning_emptied(asked):
    # 19 and 20-22 are empty batches: before 23 comes 17.
    explanation = asked("compaction/kafka-3.9.1-1b-cleaned", "kv-idempotent-0", offset=23)
    assert reasons(explanation)[0] == ("record before", 17, "its offset is below 23")


def test_transaction_marker_is_called_one(golden):
    case, partition = "transactions/kafka-3.9.1", "tx-0"
    expected = golden.expected(case, partition)
    control = expected["batchColumns"].index("isControl")
    marker = next(batch[0] for segment in expected["segments"] for batch in segment["batches"] if batch[control])
    with open_log(str(golden.partition(case, partition))) as log:
        assert explain(log, offset=marker).conclusion.endswith("It is a control record (a transaction marker): consumers never get it.")


def test_answer_in_a_batch_with_a_wrong_checksum_is_given_with_a_warning(golden, tmp_path):
    # Nothing is read at a start after a clean stop, so the changed byte, in the last value of the batch 27-31, is unseen until now.
    directory = golden.partition(ARTICLES, "topic-log-0", tmp_path)
    file = directory / "00000000000000000000.log"
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    with open_log(str(directory)) as log:
        explanation = explain(log, offset=29)
    assert explanation.answer.offset == 29
    assert explanation.conclusion.endswith("But the checksum of that batch is wrong: run milepost verify.")


def test_offset_inside_damaged_bytes_says_what_is_lost(asked):
    # One byte of the batch 115-118, bytes 1144 to 1354, was changed; 119 lies behind it.
    explanation = asked("unclean/kafka-3.9.1-badcrc-before", "crash-0", offset=116)
    assert explanation.answer is None
    assert explanation.conclusion == (
        "Offset 116 lies in damaged bytes 1144 to 1354: offsets 115 to 118 are lost there. "
        "A fetch answers CORRUPT_MESSAGE; readers may go on at 119."
    )
    assert [step["step"] for step in explanation_as_json(explanation)["steps"]] == ["segment", "index", "scan"]
    assert explanation_as_json(explanation)["damage"] == [{"position": 1144, "end": 1354, "first_offset": 115, "next_offset": 119}]


def test_time_that_is_answered_behind_damaged_bytes_says_what_it_stepped_over(tmp_path):
    with open_log(str(tmp_path / "hurt-0"), "a", clock=ManualClock(1_700_000_000_000)) as log:
        for number in range(3):
            log.append([Record(0, 1_600_000_000_000 + number, None, b"x")])
    # Each batch has 69 bytes. The last byte of the second is changed, and no marker says that the stop was clean.
    file = tmp_path / "hurt-0" / "00000000000000000000.log"
    file.write_bytes(file.read_bytes()[:137] + b"!" + file.read_bytes()[138:])
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    with open_log(str(tmp_path / "hurt-0")) as log:
        explanation = explain(log, time=1_600_000_000_001)
    assert explanation.answer.offset == 2
    text = " ".join(text_of(explanation).split())
    assert "On the way are damaged bytes 69 to 138: offset 1 is lost there, and might have been the answer." in text


def test_index_rebuilt_in_memory_is_said_and_follows_the_given_interval(golden):
    directory = str(golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0"))
    with open_partition(directory, {"index.interval.bytes": "256"}) as log:
        explanation = explain(log, offset=112)
    # As Kafka's own index of that segment has them: (104, 455), (110, 725), (118, 1144), …
    assert explanation_as_json(explanation)["steps"][1]["entry"] == {"offset": 110, "position": 725}
    assert 94 in explanation.rebuilt
    assert "rebuilt in memory for this, with index.interval.bytes = 256" in " ".join(text_of(explanation).split())


# Two thousand one-record batches, an entry for each but the first: the last 1,024 entries and one more are warm.


@pytest.fixture(scope="module")
def long_index(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("data") / "long-0")
    with open_log(directory, "a", {"index.interval.bytes": 0}, clock=ManualClock(1_700_000_000_000)) as log:
        for number in range(2000):
            log.append([Record(0, 1_600_000_000_000 + number, None, b"x")])
    return directory


def index_step(directory, **question):
    with open_log(directory) as log:
        explanation = explain(log, **question)
    return " ".join(text_of(explanation).split()), explanation_as_json(explanation)["steps"][1]


def test_lookup_near_the_end_is_answered_by_the_warm_section(long_index):
    text, step = index_step(long_index, offset=1990)
    assert (step["entries"], step["warm"], step["slot"]) == (1999, True, 1989)
    assert "the warm section (the last 8,192 bytes, from slot 974 on) answered" in text
    assert step["pages"] <= 3


def test_lookup_near_the_start_goes_into_the_cold_part(long_index):
    text, step = index_step(long_index, offset=5)
    assert (step["warm"], step["slot"]) == (False, 4)
    assert "the warm section starts past it, at slot 974, so the search went into the cold part" in text
    assert step["pages"] <= 11


def test_log_that_is_being_written_is_explained_beside_its_writer(tmp_path):
    directory = str(tmp_path / "busy-0")
    with open_log(directory, "a", clock=ManualClock(1_700_000_000_000)) as writer:
        for number in range(10):
            writer.append([Record(0, 1_600_000_000_000 + number, None, b"x" * 100)])
        with open_log(directory) as log:
            explanation = explain(log, offset=7)
        writer.append([Record(0, 1_600_000_000_010, None, b"y")])
        assert writer.end_offset == 11
    assert (explanation.answer.offset, explanation.rebuilt) == (7, (0,))


@pytest.mark.parametrize("case", all_cases())
def test_every_golden_log_is_explained_within_the_width_of_a_terminal(case, golden):
    for partition in index()[case]["partitions"]:
        with open_log(str(golden.partition(case, partition))) as log:
            middle = (log.start_offset + log.end_offset) // 2
            for question in ({"offset": log.start_offset}, {"offset": middle}, {"offset": log.end_offset}, {"time": 1700000000500}):
                explanation = explain(log, **question)
                assert max(map(len, text_of(explanation).splitlines())) <= WIDTH
                json.dumps(explanation_as_json(explanation))


@pytest.mark.parametrize("question", [{}, {"offset": 1, "time": 1}])
def test_question_is_an_offset_or_a_time(golden, question):
    with open_log(str(golden.partition(ARTICLES, "topic-log-0"))) as log, pytest.raises(InvalidArgument, match="one of the two"):
        explain(log, **question)


def test_data_directory_is_refused_with_a_partition_to_name(golden):
    with pytest.raises(KafkaStorage, match=r"a data directory with 5 partitions; name a partition in it, such as .*/page_visits-0"):
        open_partition(str(golden("page_visits/kafka-3.9.1") / "logdir"))


def test_directory_of_other_things_is_refused(tmp_path):
    (tmp_path / "install.log").write_text("nothing of Kafka's")
    with pytest.raises(KafkaStorage, match=r"no segments in it \(such as 00000000000000000000\.log\); name a partition directory"):
        open_partition(str(tmp_path))


def test_partition_without_a_record_has_nothing_to_find(tmp_path):
    (tmp_path / "new-0").mkdir()
    with open_partition(str(tmp_path / "new-0")) as log:
        explanation = explain(log, offset=0)
    assert explanation.conclusion == "Nothing to find: the log is empty, its next offset is 0."
    assert "From byte 0: the segment ends there." in text_of(explanation)
    assert list((tmp_path / "new-0").iterdir()) == []


def test_file_is_refused_with_a_hint(golden):
    file = golden.partition(ARTICLES, "topic-log-0") / "00000000000000000000.log"
    with pytest.raises(KafkaStorage, match="a file; name the partition directory it is in"):
        open_partition(str(file))
