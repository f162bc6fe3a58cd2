"""What brokers asked of the controller: to leave (ControlledShutdown), and to change in-sync replicas (AlterPartition).

Both as short texts: `2 leaves`, `3 t-rf3-1 e1 isr[3, 1, 2] pe1`. Proposals are repeated when a controller is young, and come one by one or
together; so what counts of them is which there were. The recording does not have all of them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.cluster.recorded.taps import Noted
from tests.golden_wire_fixture import examples, members

ALTER_PARTITION = "interbroker/56-AlterPartition.json"
WORDS = re.compile(
    r'^\{"brokerId":(\d+)|"topicId":"([^"]+)"'
    r'|"partitionIndex":(\d+),"leaderEpoch":(\d+),"newIsrWithEpochs":(\[.*?\]),"leaderRecoveryState":0,"partitionEpoch":(\d+)\}'
)


class Asked(NamedTuple):
    leaving: list[str]
    proposals: set[str]
    versions: set[tuple[str, int]]


def asked(requests: Iterable[Noted], topics: Mapping[str, str]) -> Asked:
    found = Asked([], set(), set())
    for noted in requests:
        request = noted.request
        if noted.api == "ControlledShutdown":
            found.leaving.append(f"{request.broker_id} leaves")
        elif noted.api == "AlterPartition":
            for topic in request.topics:
                name = topics[base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")]
                for part in topic.partitions:
                    isr = [each.broker_id for each in part.new_isr_with_epochs]
                    found.proposals.add(
                        f"{request.broker_id} {name}-{part.partition_index} e{part.leader_epoch} isr{isr} pe{part.partition_epoch}"
                    )
        else:
            continue
        found.versions.add((noted.api, noted.version))
    return found


def recorded_asked(path: str, step: str, topics: Mapping[str, str]) -> Asked:
    """What was recorded: long requests are cut off in the order, some of them are whole among the examples."""
    found = Asked([], set(), set())
    for line in members("interbroker")[path].decode().splitlines():
        at, _, _, _, _, _, api, version, text, *_ = line.split("\t")
        if at == step and api in ("ControlledShutdown", "AlterPartition"):
            found.versions.add((api, int(version)))
            if api == "ControlledShutdown":
                found.leaving.append(f"{json.loads(text)['brokerId']} leaves")
            else:
                found.proposals.update(proposals(text, topics))
    for example in examples("interbroker", ALTER_PARTITION):
        if example["step"] == step and ("AlterPartition", example["apiVersion"]) in found.versions:
            found.proposals.update(proposals(json.dumps(example["requestJson"], separators=(",", ":")), topics))
    return found


def proposals(text: str, topics: Mapping[str, str]) -> Iterator[str]:
    """Those that are whole."""
    broker_id, topic = "", ""
    for broker, topic_id, number, leader_epoch, isr, partition_epoch in WORDS.findall(text):
        broker_id = broker_id or broker
        if topic_id:
            topic = topics[topic_id]
        elif number:
            members_of = list(map(int, re.findall(r'"brokerId":(\d+)', isr)))
            yield f"{broker_id} {topic}-{number} e{leader_epoch} isr{members_of} pe{partition_epoch}"
