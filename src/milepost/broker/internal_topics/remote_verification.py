"""Asking a coordinator on another broker before the first record of a transaction is appended here (AddPartitionsToTxn 4 and later).

Without an answer nothing is appended: the client gets a retriable error (`transaction_admission`). The same after 31
CLUSTER_AUTHORIZATION_FAILED: the coordinator has not heard of us yet. (Kafka makes that 48 INVALID_TXN_STATE, which ends older producers.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_admission import Admission, answered
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AddPartitionsToTxnRequest
from milepost.replica.metadata import BrokerInfo
from milepost.replica.peers import Peers
from milepost.topic_partition import TopicPartition

Transaction = AddPartitionsToTxnRequest.Transaction


def ask_coordinator(
    peers: Peers,
    coordinator: BrokerInfo | None,
    admission: Admission,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    answer: Callable[[dict[TopicPartition, ErrorCode]], None],
) -> None:
    if coordinator is None:
        answer(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    topics: dict[str, Transaction.Topic] = {}
    for name in partitions:
        topics.setdefault(name.topic, Transaction.Topic(name=name.topic, partitions=[])).partitions.append(name.partition)
    request = AddPartitionsToTxnRequest(
        transactions=[
            Transaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=admission is not Admission.ADD,
                topics=list(topics.values()),
            )
        ]
    )

    def told(response: Any) -> None:
        found = {
            TopicPartition(topic.name, part.partition_index): ErrorCode(part.partition_error_code)
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for part in topic.results_by_partition
        }
        missing = ErrorCode(response.error_code)
        if missing in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer({name: answered(found.get(name, missing), admission) for name in partitions})

    peers.send(
        coordinator,
        request,
        None,
        told,
        lambda error: answer(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        purpose="verification",
    )
