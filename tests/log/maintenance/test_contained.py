"""A piece of maintenance that fails ends there; what it means for its log is asked once, and not of a log that is gone."""

from __future__ import annotations

import errno

import pytest

from milepost.errors import KafkaStorage, MilepostError
from milepost.log.maintenance.contained import contained

EIO = OSError(errno.EIO, "Input/output error")


class Worked:
    def __init__(self, **state: bool):
        self.is_failed = self.is_closed = False
        self.__dict__ |= state
        self.refused: list[OSError] = []

    def refuse(self, error: OSError) -> MilepostError:
        self.refused.append(error)
        return KafkaStorage("the directory is offline")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_error_of_the_disk_is_told_to_the_log(caplog):
    log = Worked()
    with contained("a pass", log):
        raise EIO
    assert (log.refused, told(caplog)) == ([EIO], ["a pass failed: the directory is offline"])


@pytest.mark.parametrize("state", ["is_failed", "is_closed"])
def test_error_of_the_disk_on_a_log_that_is_gone_is_not_worth_a_word(caplog, state):
    log = Worked(**{state: True})
    with contained("a pass", log):
        raise EIO
    assert (log.refused, told(caplog)) == ([], [])


def test_error_of_the_disk_without_a_log_is_only_said(caplog):
    with contained("a pass"):
        raise EIO
    assert told(caplog) == ["a pass failed: [Errno 5] Input/output error"]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KafkaStorage("no room"), "a pass failed: no room"),
        (KeyError("t"), "a pass failed; it is tried again when it is due again"),
    ],
)
def test_any_other_error_ends_the_piece_and_leaves_the_log_alone(caplog, error, sentence):
    log = Worked()
    with contained("a pass", log):
        raise error
    assert (log.refused, told(caplog)) == ([], [sentence])
