"""Every error milepost raises on purpose, under the name Kafka gives it (without the suffix "Exception").

Each class carries two numbers: `code`, what a broker answers on the wire, and `exit_code`, what the
command line returns (0 fine, 1 findings, 2 wrong usage, 3 directory, port or I/O, 4 broker or network).
A message is a sentence with numbers: what was read, where (file, position), what was expected, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence


class MilepostError(Exception):
    code = -1
    exit_code = 3


class InvalidArgument(MilepostError, ValueError):
    """A caller's mistake: Kafka's IllegalArgument and IllegalState."""

    code = 42
    exit_code = 2


class PipelineMistakes(InvalidArgument):
    """All that is wrong with a pipeline file, a line for each."""

    def __init__(self, lines: Sequence[str]):
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class InvalidConfiguration(MilepostError, ValueError):
    """`name` is the property at fault where it is one: who knows where it was given can say so."""

    code = 40
    exit_code = 2

    def __init__(self, message: str, name: str | None = None):
        super().__init__(message)
        self.name = name


# What is on disk or on the wire does not parse.


class CorruptRecord(MilepostError):
    """Bytes that are not what their checksum or length says."""

    code = 2


class CorruptIndex(MilepostError):
    pass


class CorruptSnapshot(MilepostError):
    pass


class CorruptCheckpoint(MilepostError):
    pass


class UnsupportedCompressionType(MilepostError):
    code = 76


class InvalidRequest(MilepostError):
    code = 42
    exit_code = 4


class MalformedMessage(InvalidRequest):
    """Bytes from the network that are not the frame, the request or the answer they should be."""


class TooManyElements(MalformedMessage):
    """A message with more elements in its arrays than its reader is ready to make objects of."""


class UnsupportedVersion(MilepostError):
    """An API, or a version of it, that there is no schema for; or a value that a version has no field for."""

    code = 35
    exit_code = 4


# A record set that may not be appended.


class InvalidRecord(MilepostError):
    code = 87


class DecompressedTooLarge(InvalidRecord):
    """A compressed stream holds more than its reader takes."""


class RecordValidation(InvalidRecord):
    """Some records of a batch were refused; `record_errors` names each by its index in the batch."""

    def __init__(self, message: str, record_errors: Sequence[tuple[int, str]], code: int = InvalidRecord.code):
        super().__init__(message)
        self.record_errors = tuple(record_errors)
        self.code = code


class RecordTooLarge(MilepostError):
    code = 10


class RecordBatchTooLarge(MilepostError):
    code = 18


class UnsupportedForMessageFormat(MilepostError):
    code = 43


class OffsetsOutOfOrder(MilepostError):
    pass


class UnexpectedAppendOffset(MilepostError):
    def __init__(self, message: str, first_offset: int, last_offset: int):
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class OutOfOrderSequence(MilepostError):
    code = 45


class InvalidProducerEpoch(MilepostError):
    code = 47


class InvalidTxnState(MilepostError):
    code = 48


class TransactionCoordinatorFenced(MilepostError):
    code = 52


# A place in the log that does not exist, or does not fit.


class OffsetOutOfRange(MilepostError):
    code = 1


class InvalidOffset(MilepostError):
    """An index entry that would not keep the index increasing."""


class IndexOffsetOverflow(MilepostError):
    """An offset that does not fit four bytes relative to its segment's base offset."""


class SegmentOffsetOverflow(MilepostError):
    def __init__(self, message: str, base_offset: int, offset: int):
        super().__init__(message)
        self.base_offset = base_offset
        self.offset = offset


# A directory that cannot be used.


class KafkaStorage(MilepostError):
    code = 56


class DirectoryLocked(MilepostError):
    """Another process owns the data directory."""

    code = 56


class InconsistentTopicId(MilepostError):
    code = 103


class PolicyViolation(MilepostError):
    code = 44


class NotLeaderOrFollower(MilepostError):
    """This broker does not lead the partition: ask for the metadata again."""

    code = 6


class NotEnoughReplicas(MilepostError):
    code = 19


class PortUnavailable(MilepostError):
    """Nothing can listen at this address."""


# A broker, seen from a client.


class AuthenticationFailed(MilepostError):
    """Somebody did not prove who it is."""

    code = 58
    exit_code = 4


class BrokerUnavailable(MilepostError):
    """Nothing answers at an address: no connection, a lost one, or no answer in time."""

    code = 8
    exit_code = 4


class RequestFailed(MilepostError):
    """A broker answered with an error; `code` is the one it gave."""

    exit_code = 4

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code
