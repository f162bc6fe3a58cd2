"""What can be wrong with a topic that is to be created or named."""

from __future__ import annotations

from milepost.errors import MilepostError


class InvalidTopic(MilepostError):
    code = 17
    exit_code = 2


def colliding(name: str, other: str) -> InvalidTopic:
    return InvalidTopic(f"topic {name} and topic {other} differ only in dots and underscores, which metrics cannot tell apart")


class TopicExists(MilepostError):
    code = 36
    exit_code = 4


class InvalidPartitions(MilepostError):
    code = 37
    exit_code = 2


class InvalidReplicationFactor(MilepostError):
    code = 38
    exit_code = 2


class InvalidReplicaAssignment(MilepostError):
    code = 39
    exit_code = 2


class UnknownTopic(MilepostError):
    code = 3
    exit_code = 4


class TopicNotChanged(MilepostError):
    """By its code alone, where no more than that is known."""

    exit_code = 4

    def __init__(self, code: int, message: str = ""):
        super().__init__(message)
        self.code = code
