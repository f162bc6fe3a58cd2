"""Partition states in ZooKeeper, read and written by the controller. Every write checks the epoch znode version.

Each partition stands for itself: one that ZooKeeper refuses is logged and left out, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from milepost.cluster.controller_election import Term, guarded, unguarded
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Error, Get, Result, SetData
from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper, log_refusals, refusal
from milepost.cluster.zookeeper.session import Separately, Steps
from milepost.cluster.zookeeper.znodes import PartitionState
from milepost.topic_partition import TopicPartition

LEFT = "a partition is left as it is"


class Written(NamedTuple):
    """`done` with their new partition epochs; `conflicts` were changed meanwhile: read them again."""

    done: dict[TopicPartition, PartitionState]
    conflicts: list[TopicPartition]
    refused: dict[TopicPartition, RefusedByZooKeeper]


def read_states(partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, PartitionState]]:
    """Of those that have one that makes sense."""
    names = list(partitions)
    reads = [Get(znodes.state_path(name.topic, name.partition)) for name in names]
    answers = yield Separately(reads)
    log_refusals(LEFT, reads, answers)
    found = {}
    for name, answer in zip(names, answers, strict=True):
        state = znodes.parse_state(answer.data, answer.version) if answer.ok else None
        if state is not None:
            found[name] = state
    return found


def write_states(term: Term, states: Mapping[TopicPartition, PartitionState]) -> Steps[Written]:
    """Each over the version it was read at, which is its `partition_epoch`."""
    written = Written({}, [], {})
    remaining = dict(states)
    while remaining:
        writes = [
            SetData(znodes.state_path(name.topic, name.partition), znodes.state(state), state.partition_epoch)
            for name, state in remaining.items()
        ]
        answers = yield from _write_each(term, writes)
        unsure = {}
        for (name, state), write, answer in zip(remaining.items(), writes, answers, strict=True):
            refused = refusal(write, answer)
            if refused is not None:
                written.refused[name] = refused
            elif answer.ok:
                written.done[name] = state._replace(partition_epoch=state.partition_epoch + 1)
            elif answer.error in (Error.BAD_VERSION, Error.CONNECTION_LOSS):
                unsure[name] = state
        remaining = (yield from _look_again(unsure, written)) if unsure else {}
    return written


def _look_again(unsure: Mapping[TopicPartition, PartitionState], written: Written) -> Steps[dict[TopicPartition, PartitionState]]:
    """An answer may have been lost, and then a second try finds the first one's version: if our own content is there, the write
    took effect.

    Returned are those that were not written since.
    """
    found = yield from read_states(unsure)
    again = {}
    for name, state in unsure.items():
        current = found.get(name)
        if current == state._replace(partition_epoch=state.partition_epoch + 1):
            written.done[name] = current
        elif current is not None and current.partition_epoch == state.partition_epoch:
            again[name] = state
        else:
            written.conflicts.append(name)
    return again


def create_states(term: Term, states: Mapping[TopicPartition, PartitionState]) -> Steps[dict[TopicPartition, PartitionState]]:
    """The first state of new partitions, with the nodes above it. Those that have another one already are left out."""
    topics = dict.fromkeys(name.topic for name in states)
    made: dict[TopicPartition, PartitionState] = {}
    remaining = dict(states)
    while remaining:
        above = yield from _write_each(term, [Create(znodes.partitions_path(topic)) for topic in topics])
        paths = [znodes.partition_path(name.topic, name.partition) for name in remaining]
        above += yield from _write_each(term, [Create(path) for path in paths])
        writes = [Create(znodes.state_path(name.topic, name.partition), znodes.state(each)) for name, each in remaining.items()]
        answers = yield from _write_each(term, writes)
        made |= {name: state for (name, state), answer in zip(remaining.items(), answers, strict=True) if answer.ok}
        if not any(answer.error is Error.CONNECTION_LOSS for answer in (*above, *answers)):
            break
        # As with `write_states`: the nodes may be there all the same.
        found = yield from read_states(remaining)
        made |= {name: state for name, state in remaining.items() if found.get(name) == state}
        remaining = {name: state for name, state in remaining.items() if name not in found}
    return made


def _write_each(term: Term, writes: Sequence[Create | SetData]) -> Steps[list[Result]]:
    answers = unguarded((yield Separately(guarded(term, writes))))
    log_refusals(LEFT, writes, answers)
    return answers
