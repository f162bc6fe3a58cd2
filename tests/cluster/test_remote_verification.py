"""What the leader of a partition makes of the answer when it asks a coordinator on another broker about a transaction."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.broker.internal_topics.remote_verification import ask_coordinator
from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_admission import Admission, answered_to_produce
from milepost.errors import BrokerUnavailable
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AddPartitionsToTxnResponse
from milepost.replica.metadata import BrokerInfo
from milepost.topic_partition import TopicPartition

NAME = TopicPartition("visits", 0)
COORDINATOR = BrokerInfo(2, 1, (), None)
Found = AddPartitionsToTxnResponse.ResultsByTransaction


class Peers:
    """Everybody answers the same."""

    def __init__(self, response: Any):
        self.response = response

    def send(self, broker: Any, request: Any, version: Any, on_answer: Any, on_failure: Any, **options: Any) -> None:
        if self.response is None:
            on_failure(BrokerUnavailable("gone"))
        else:
            on_answer(self.response)

    def forget(self, broker_id: int) -> None: ...


def told(response: Any, admission: Admission = Admission.VERIFY, coordinator: BrokerInfo | None = COORDINATOR) -> int:
    """The code in the answer to the producer."""
    answers: list[dict[TopicPartition, ErrorCode]] = []
    ask_coordinator(Peers(response), coordinator, admission, "t", Producer(1, 0), [NAME], answers.append)
    ((name, error),) = answers[0].items()
    assert name == NAME
    return answered_to_produce(error, admission)


def about(code: int) -> AddPartitionsToTxnResponse:
    part = Found.TopicResult.ResultsByPartition(partition_index=0, partition_error_code=code)
    topic = Found.TopicResult(name="visits", results_by_partition=[part])
    return AddPartitionsToTxnResponse(results_by_transaction=[Found(transactional_id="t", topic_results=[topic])])


@pytest.mark.parametrize("admission", list(Admission))
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(AddPartitionsToTxnResponse(error_code=15), id="it has not heard of us yet"),
        pytest.param(AddPartitionsToTxnResponse(error_code=31), id="it does not believe us yet"),
        pytest.param(AddPartitionsToTxnResponse(), id="it says nothing about the partition"),
        pytest.param(None, id="it does not answer"),
        pytest.param(about(ErrorCode.NOT_COORDINATOR), id="it is coordinator no more"),
    ],
)
def test_producer_is_told_to_try_again_while_the_coordinator_cannot_say(response, admission):
    assert told(response, admission) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_producer_is_told_to_try_again_while_nobody_is_coordinator():
    assert told(None, coordinator=None) == ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("said", "admission", "code"),
    [
        (ErrorCode.NONE, Admission.VERIFY, ErrorCode.NONE),
        (ErrorCode.PRODUCER_FENCED, Admission.ADD, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, Admission.VERIFY, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, Admission.VERIFY_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_what_the_coordinator_says_is_passed_on(said, admission, code):
    assert told(about(said), admission) == code
