"""Contents of records as text and as JSON values."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument
from milepost.inspect.dump.decoders import decoder_for, json_of, shown

COMMIT_KEY = bytes.fromhex("0001 0001 67 0001 74 00000005".replace(" ", ""))
COMMIT_VALUE = bytes.fromhex("0003 000000000000002a 00000000 0000 0000000000000001".replace(" ", ""))


def test_the_name_of_the_directory_chooses_the_decoder():
    key, value = decoder_for("__consumer_offsets-7").texts(COMMIT_KEY, COMMIT_VALUE)
    assert key == '{"type":"1","data":{"group":"g","topic":"t","partition":5}}'
    assert value == '{"version":"3","data":{"offset":42,"leaderEpoch":0,"metadata":"","commitTimestamp":1}}'


def test_a_flag_chooses_it_for_any_directory_and_turns_it_off():
    assert decoder_for("copy", "offsets").texts(COMMIT_KEY, None)[1] == "<DELETE>"
    assert decoder_for("__consumer_offsets-7", "string").texts(b"k", b"v") == ("k", "v")


def test_a_record_that_does_not_parse_is_shown_as_text_with_the_reason():
    key, value = decoder_for("__transaction_state-0").texts(b"\0", b"v")
    assert key.startswith(r"\x00 <does not parse: 1 byte is too few")
    assert value == "v"
    assert decoder_for("__transaction_state-0").values(b"\0", b"v") == ("\0", "v")


def test_a_null_key_in_an_internal_topic_is_shown_as_it_is():
    assert decoder_for("__consumer_offsets-0").texts(None, b"v") == (None, "v")
    assert decoder_for("__consumer_offsets-0").values(None, None) == (None, None)


def test_a_tombstone_is_null_as_a_value():
    assert decoder_for("__consumer_offsets-0").values(COMMIT_KEY, None)[1] is None


def test_an_unknown_decoder_is_named_with_the_known_ones():
    with pytest.raises(InvalidArgument, match="known are auto, string, offsets, transaction-log"):
        decoder_for("t-0", "avro")


@pytest.mark.parametrize(("content", "value"), [(None, None), (b"", ""), ("é".encode(), "é"), (b"\xff", {"hex": "ff"})])
def test_bytes_as_json(content, value):
    assert json_of(content) == value


def test_text_from_anywhere_is_safe_on_a_terminal():
    assert shown("a\tb\x7f\u2028\udcff") == r"a\x09b\x7f\u2028" + "�"
