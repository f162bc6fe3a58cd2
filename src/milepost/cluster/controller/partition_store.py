"""Partition states in ZooKeeper, read and written by the controller. Every write is behind the controller's key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from milepost.cluster.election import Term, guarded, unguarded
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Error, Get, SetData
from milepost.cluster.zookeeper.session import Steps
from milepost.cluster.zookeeper.znodes import PartitionState
from milepost.log.partition_name import TopicPartition


class Written(NamedTuple):
    """`done` with their new partition epochs; `conflicts` were changed by somebody else meanwhile: read them again."""

    done: dict[TopicPartition, PartitionState]
    conflicts: list[TopicPartition]


def read_states(partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, PartitionState]]:
    """Of those that have one that makes sense."""
    names = list(partitions)
    answers = yield [Get(znodes.state_path(name.topic, name.partition)) for name in names]
    found = {}
    for name, answer in zip(names, answers, strict=True):
        state = znodes.parse_state(answer.data, answer.version) if answer.ok else None
        if state is not None:
            found[name] = state
    return found


def write_states(term: Term, states: Mapping[TopicPartition, PartitionState]) -> Steps[Written]:
    """Each over the version it was read at, which is its `partition_epoch`."""
    writes = [
        SetData(znodes.state_path(name.topic, name.partition), znodes.state(state), state.partition_epoch)
        for name, state in states.items()
    ]
    answers = unguarded((yield guarded(term, writes)))
    written = Written({}, [])
    for (name, state), answer in zip(states.items(), answers, strict=True):
        if answer.ok:
            written.done[name] = state._replace(partition_epoch=state.partition_epoch + 1)
        elif answer.error in (Error.BAD_VERSION, Error.CONNECTION_LOSS):
            written.conflicts.append(name)
    return written


def create_states(term: Term, states: Mapping[TopicPartition, PartitionState]) -> Steps[dict[TopicPartition, PartitionState]]:
    """The first state of new partitions, with the nodes above it. Those that have one already are left out."""
    topics = dict.fromkeys(name.topic for name in states)
    yield guarded(term, [Create(znodes.partitions_path(topic)) for topic in topics])
    yield guarded(term, [Create(znodes.partition_path(name.topic, name.partition)) for name in states])
    writes = [Create(znodes.state_path(name.topic, name.partition), znodes.state(state)) for name, state in states.items()]
    answers = unguarded((yield guarded(term, writes)))
    return {name: state for (name, state), answer in zip(states.items(), answers, strict=True) if answer.ok}
