"""Three milepost brokers go through the 25 steps that were recorded with three brokers of Kafka 3.9.1, on a real ZooKeeper.

After each step the znodes are the same, field by field; during it the controller tells each broker the same, in the same order; and the
brokers ask the same of the controller. With inter.broker.protocol.version 2.3 the znodes were not recorded, the requests were.

What differs, and why (docs/deviations.md has it, too):

    repeated UpdateMetadata   Changes of in-sync replicas are told as they come, one by one or together. When a broker has left politely
                              milepost tells the living brokers once more; at the end of a move Kafka tells everybody once more. Neither
                              has news in it, and what has none is not compared.
    order in a request        Kafka's partitions come in the order of its hash tables.
    `CUT`                     A broker that leaves is gone as soon as it may. What waits to be sent to it is not sent any more: one of
                              the two hears less than the other.
    `HASTY`                   Proposals of a leader that the controller's own change overtook. It is a matter of milliseconds who is first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

import pytest

from milepost.cluster.zookeeper.server import ZooKeeperServer
from tests.cluster.recorded.asked import asked, recorded_asked
from tests.cluster.recorded.brokers import RecordedBrokers
from tests.cluster.recorded.news import UPDATE, Listener, Report
from tests.cluster.recorded.steps import Done, Steps
from tests.cluster.recorded.taps import Noted, Taps
from tests.cluster.recorded.told import Told, lines, recorded
from tests.cluster.recorded.trees import differences, recorded_tree, topic_names

ORDER = {"3.9": "interbroker/order.tsv", "2.3": "interbroker/ibp-2.3/order.tsv"}
# Where the partitions of `t-auto` were put, and who of the last two was stopped first.
AUTO = {
    "3.9": {0: [2, 3], 1: [3, 1], 2: [1, 3], 3: [2, 3]},
    "2.3": {0: [1, 3], 1: [2, 1], 2: [3, 1], 3: [1, 3]},
}
LAST = {"3.9": (1, 3), "2.3": (3, 1)}
VERSIONS = {
    "3.9": {("LeaderAndIsr", 7), ("UpdateMetadata", 8), ("StopReplica", 4)},
    "2.3": {("LeaderAndIsr", 2), ("UpdateMetadata", 5), ("StopReplica", 1)},
}
CONTROLLERS = {1: 1, 2: 2, 3: 3, 4: 1}
CUT = {"11": {2}, "25": {1, 3}}
HASTY = {"2 t-move-0 e2 isr[2, 3] pe3"}


class Run(list[Done]):
    version = ""


@pytest.fixture(scope="module", params=["3.9", "2.3"])
def run(request, tmp_path_factory, zookeeper_server: ZooKeeperServer) -> Run:
    directory: Path = tmp_path_factory.mktemp("recorded")
    run = Run()
    run.version = request.param
    with Taps() as taps:
        brokers = RecordedBrokers(directory, f"{zookeeper_server.address}/recorded-{run.version}", run.version, taps)
        try:
            run.extend(Steps(brokers, AUTO[run.version], LAST[run.version]).run(partial(is_complete, run.version)))
        finally:
            brokers.close()
    return run


def is_complete(version: str, step: str, requests: list[Noted]) -> bool:
    """Whether each broker got as many commands as Kafka's got."""
    expected, sent = commands(step, recorded(ORDER[version]).get(step, [])), commands(step, lines(requests))
    return all(sent[where] >= count for where, count in expected.items())


def commands(step: str, told: Iterable[Told]) -> Counter[tuple[int, int]]:
    where = [(each.to, each.controller_epoch) for each in told if each.api != UPDATE]
    return Counter(each for each in where if not may_be_cut(step, *each))


def may_be_cut(step: str, broker_id: int, controller_epoch: int) -> bool:
    return bool({broker_id, CONTROLLERS[controller_epoch]} & CUT.get(step[:2], set()))


def test_znodes_are_those_of_kafka(run):
    if run.version != "3.9":
        pytest.skip("the trees were recorded at 3.9")
    found = [f"{done.step}: {each}" for done in run for each in differences(recorded_tree(done.step), done.tree)]
    assert not found, "\n".join(found)


def test_controller_tells_what_kafkas_tells_in_its_order(run):
    expected = recorded(ORDER[run.version])
    assert expected.keys() <= {done.step for done in run}
    found = []
    for broker_id in (1, 2, 3):
        with_isr = run.version == "3.9"
        kafka, milepost = Listener(broker_id, with_isr=with_isr), Listener(broker_id, with_isr=with_isr)
        for done in run:
            told, heard = kafka.hear(expected.get(done.step, [])), milepost.hear(lines(done.requests))
            for epoch in sorted(told.keys() | heard.keys()):
                is_cut = may_be_cut(done.step, broker_id, epoch)
                where = f"{done.step}, controller epoch {epoch}, to broker {broker_id}"
                nothing = Report([], [], {}, [])
                for each in unlike(told.get(epoch, nothing), heard.get(epoch, nothing), is_cut=is_cut):
                    found.append(f"{where}: {each}")
    assert not found, "\n".join(found)


def unlike(kafka: Report, milepost: Report, *, is_cut: bool) -> Iterator[str]:
    pairs = [(name, getattr(kafka, name), getattr(milepost, name)) for name in ("commands", "kinds", "living")]
    for partition in sorted(kafka.words.keys() | milepost.words.keys()):
        pairs.append((partition, kafka.words.get(partition, []), milepost.words.get(partition, [])))
    for name, expected, got in pairs:
        if is_cut:
            length = min(len(expected), len(got))
            expected, got = expected[:length], got[:length]
        for number, (wanted, said) in enumerate(zip_longest(expected, got)):
            if wanted != said:
                yield f"{name} {number}\n    Kafka    {wanted}\n    milepost {said}"
                break


def test_requests_have_the_versions_of_the_protocol(run):
    found = {(told.api, told.version) for done in run for told in lines(done.requests)}
    assert found == VERSIONS[run.version]


def test_brokers_ask_of_the_controller_what_kafkas_ask(run):
    for done in run:
        tree = recorded_tree(done.step)
        expected = recorded_asked(ORDER[run.version], done.step, topic_names(tree))
        got = asked(done.requests, topic_names(done.tree))
        assert got.leaving == expected.leaving, done.step
        assert expected.proposals - HASTY <= got.proposals, done.step
        assert got.versions == expected.versions, done.step
