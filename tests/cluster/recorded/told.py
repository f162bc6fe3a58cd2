"""What brokers were told, in one form for what was recorded of Kafka and for what milepost sends.

A request is `Told`: to whom, what, in which version, and about each partition one short text, as in the recording's `order.tsv`:

    LeaderAndIsr     L1 e0 isr[1, 2] pe0 new add[3] rem[1]     leader, leader epoch, in-sync replicas, partition epoch
    UpdateMetadata   L1 e0 isr[1, 2] zk0                       and the living brokers in `live`
    StopReplica      e0 delete                                 before version 3 the recording does not say which partitions

`life` is the receiver's broker epoch: another one after it has registered anew.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.cluster.recorded.taps import Noted
from tests.golden_wire_fixture import members

LEADERSHIP = ("LeaderAndIsr", "UpdateMetadata")
STOP = "StopReplica"
Partition = tuple[str, int]


class Told(NamedTuple):
    to: int
    api: str
    version: int
    partitions: dict[Partition, str]
    live: tuple[int, ...]
    controller_epoch: int
    life: int


def lines(requests: Iterable[Noted]) -> list[Told]:
    """The controller's requests among those noted."""
    return [told(each) for each in requests if each.api in (*LEADERSHIP, STOP)]


def told(noted: Noted) -> Told:
    request = noted.request
    partitions = {}
    for topic in request.topic_states:
        for state in topic.partition_states:
            partitions[topic.topic_name, state.partition_index] = state_text(noted.api, noted.version, state)
    live = tuple(sorted(each.id for each in request.live_brokers)) if noted.api == "UpdateMetadata" else ()
    return Told(noted.to_broker, noted.api, noted.version, partitions, live, request.controller_epoch, request.broker_epoch)


def state_text(api: str, version: int, state: Any) -> str:
    if api == STOP:
        return f"e{state.leader_epoch}{' delete' if state.delete_partition else ''}"
    text = f"L{state.leader} e{state.leader_epoch} isr{list(state.isr)}"
    if api == "UpdateMetadata":
        return f"{text} zk{state.zk_version}"
    text += f" pe{state.partition_epoch}{' new' if state.is_new else ''}"
    moves = (("add", state.adding_replicas), ("rem", state.removing_replicas)) if version >= 3 else ()
    return text + "".join(f" {word}{list(replicas)}" for word, replicas in moves if replicas)


@functools.cache
def recorded(path: str) -> dict[str, list[Told]]:
    """step -> what Kafka's controller sent during it, from an `order.tsv`."""
    found: dict[str, list[Told]] = {}
    for line in members("interbroker")[path].decode().splitlines()[1:]:
        step, _, _, _, to, _, api, version, request, *_ = line.split("\t")
        if api in (*LEADERSHIP, STOP):
            found.setdefault(step, []).append(parse(int(to), api, int(version), request))
    return found


def parse(to: int, api: str, version: int, request: str) -> Told:
    partitions = {}
    for topic, states in re.findall(r"(\S+?):((?:\d+\([^)]*\),?)+|\[\(.*?\)\])", request):
        if api == STOP:
            for number, epoch, delete in re.findall(r"\((\d+), 'e', (-?\d+), 'delete', (True|False)\)", states):
                partitions[topic, int(number)] = f"e{epoch}{' delete' if delete == 'True' else ''}"
        else:
            for number, state in re.findall(r"(\d+)\(([^)]*)\)", states):
                partitions[topic, int(number)] = state
    live = re.search(r"live \[([^]]*)\]$", request)
    living = tuple(sorted(map(int, live[1].split(", ")))) if live and api == "UpdateMetadata" else ()
    epochs = re.search(r"ce (\d+) be (\d+)", request)
    assert epochs is not None, request
    return Told(to, api, version, partitions, living, int(epochs[1]), int(epochs[2]))
