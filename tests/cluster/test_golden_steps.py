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

from collections.abc import Iterator
from itertools import zip_longest

import pytest

from tests.cluster.recorded.asked import asked, recorded_asked
from tests.cluster.recorded.brokers import RecordedBrokers
from tests.cluster.recorded.news import Listener, Report
from tests.cluster.recorded.steps import Done, Steps
from tests.cluster.recorded.taps import Taps
from tests.cluster.recorded.told import lines, recorded
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


@pytest.mark.parametrize("version", ["3.9", "2.3"])
def test_brokers_go_through_the_recorded_steps_as_kafkas_did(version, tmp_path, zookeeper):
    with Taps() as taps:
        brokers = RecordedBrokers(tmp_path, zookeeper, version, taps)
        try:
            run = Steps(brokers, AUTO[version], LAST[version]).run(lambda run: not any(last_differences(version, run)))
        finally:
            brokers.close()
    # One test for all of it: where tests are spread over processes, each of them would go through the steps again.
    found = [
        *other_znodes(version, run),
        *other_words(version, run),
        *other_requests(version, run),
        *other_versions(version, run),
    ]
    assert not found, "\n".join(found)


def last_differences(version: str, run: list[Done]) -> Iterator[str]:
    """Of the last step; some of them only because it goes on."""
    yield from other_znodes(version, run[-1:])
    yield from other_requests(version, run[-1:])
    yield from (each for each in other_words(version, run) if each.startswith(run[-1].step))


def may_be_cut(step: str, broker_id: int, controller_epoch: int) -> bool:
    return bool({broker_id, CONTROLLERS[controller_epoch]} & CUT.get(step[:2], set()))


def other_znodes(version: str, run: list[Done]) -> Iterator[str]:
    if version == "3.9":  # at 2.3 they were not recorded
        for done in run:
            yield from (f"{done.step}: {each}" for each in differences(recorded_tree(done.step), done.tree))


def other_words(version: str, run: list[Done]) -> Iterator[str]:
    """What the controller told each broker."""
    expected = recorded(ORDER[version])
    for broker_id in (1, 2, 3):
        with_isr = version == "3.9"
        kafka, milepost = Listener(broker_id, with_isr=with_isr), Listener(broker_id, with_isr=with_isr)
        for done in run:
            told, heard = kafka.hear(expected.get(done.step, [])), milepost.hear(lines(done.requests))
            for epoch in sorted(told.keys() | heard.keys()):
                is_cut = may_be_cut(done.step, broker_id, epoch)
                where = f"{done.step}, controller epoch {epoch}, to broker {broker_id}"
                nothing = Report([], [], {}, [])
                for each in unlike(told.get(epoch, nothing), heard.get(epoch, nothing), is_cut=is_cut):
                    yield f"{where}: {each}"


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


def other_versions(version: str, run: list[Done]) -> Iterator[str]:
    versions = {(told.api, told.version) for done in run for told in lines(done.requests)}
    if versions != VERSIONS[version]:
        yield f"versions {versions}"
    if missing := recorded(ORDER[version]).keys() - {done.step for done in run}:
        yield f"not done: {sorted(missing)}"


def other_requests(version: str, run: list[Done]) -> Iterator[str]:
    """What brokers ask of the controller."""
    for done in run:
        expected = recorded_asked(ORDER[version], done.step, topic_names(recorded_tree(done.step)))
        got = asked(done.requests, topic_names(done.tree))
        missing = expected.proposals - HASTY - got.proposals
        if missing or (got.leaving, got.versions) != (expected.leaving, expected.versions):
            yield f"{done.step}: {expected} expected of the controller, {got} asked; missing {missing}"
