"""The table of error codes."""

from __future__ import annotations

import pytest

from milepost import errors
from milepost.protocol.error_codes import RETRIABLE, ErrorCode, error_name


# Numbers and retries that clients build on, from the Java client's table.
@pytest.mark.parametrize(
    ("code", "name", "is_retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (0, "NONE", False),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (27, "REBALANCE_IN_PROGRESS", False),
        (35, "UNSUPPORTED_VERSION", False),
        (42, "INVALID_REQUEST", False),
        (56, "KAFKA_STORAGE_ERROR", True),
        (74, "FENCED_LEADER_EPOCH", True),
        (78, "OFFSET_NOT_AVAILABLE", True),
        (90, "PRODUCER_FENCED", False),
        (100, "UNKNOWN_TOPIC_ID", True),
        (103, "INCONSISTENT_TOPIC_ID", True),
        (113, "STALE_MEMBER_EPOCH", False),
        (120, "TRANSACTION_ABORTABLE", False),
        (129, "REBOOTSTRAP_REQUIRED", False),
    ],
)
def test_code(code, name, is_retriable):
    assert ErrorCode(code) is ErrorCode[name]
    assert (code in RETRIABLE) is is_retriable
    assert error_name(code) == name


def test_codes_have_no_gap():
    assert [code.value for code in ErrorCode] == list(range(-1, 134))


def test_code_from_the_future_has_a_name():
    assert error_name(999) == "error 999"


def test_exceptions_of_the_project_carry_codes_of_the_table():
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.MilepostError)]
    assert len(classes) > 20
    assert {cls.code for cls in classes} <= {code.value for code in ErrorCode}
