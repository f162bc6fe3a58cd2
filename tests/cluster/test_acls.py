"""ACLs of a cluster: Kafka's znodes, which our brokers and Kafka 3.9.1's see and obey alike."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.cluster.asking import metadata, until, zookeeper_client
from tests.cluster.kafka_processes import MixedProcesses
from tests.cluster.processes import BrokerProcess, ClusterProcesses
from tests.cluster.writing import create_topic
from tests.waiting import PROCESS_PATIENCE

AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def of_alice(name: str, pattern: ResourcePatternType = LITERAL) -> AclBinding:
    """With it everybody else may not use the topic: it is no resource without rules any more."""
    return AclBinding(ResourceType.TOPIC, name, pattern, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)


def allow(address: str, binding: AclBinding) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_acls([binding]).values():
        future.result(PROCESS_PATIENCE)


def take_away(address: str, binding: AclBinding) -> None:
    wanted = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.delete_acls([wanted]).values():
        assert future.result(PROCESS_PATIENCE) == [binding]


def stored(address: str) -> set[AclBinding]:
    admin = AdminClient({"bootstrap.servers": address})
    return set(admin.describe_acls(EVERYTHING).result(PROCESS_PATIENCE))


def is_shown(address: str, topic: str) -> bool:
    return topic in metadata(address).topics


def everybody_knows(cluster: ClusterProcesses, bindings: set[AclBinding], topic: str, shown: bool) -> None:
    for broker in cluster.brokers.values():
        until(lambda broker=broker: stored(broker.address) == bindings, f"broker {broker.broker_id} has {len(bindings)} ACLs")
        until(lambda broker=broker: is_shown(broker.address, topic) is shown, f"broker {broker.broker_id} obeys them")


def follow_each_other(cluster: ClusterProcesses) -> None:
    addresses = [broker.address for broker in cluster.brokers.values()]
    create_topic(cluster, "visits", 1, 1)
    everybody_knows(cluster, set(), "visits", True)
    for binding in (of_alice("visits"), of_alice("vis", PREFIXED)):
        for giver, taker in (addresses, addresses[::-1]):
            allow(giver, binding)
            everybody_knows(cluster, {binding}, "visits", False)
            take_away(taker, binding)
            everybody_knows(cluster, set(), "visits", True)


def test_rule_that_one_broker_takes_is_obeyed_by_all_and_kept(tmp_path, zookeeper):
    with ClusterProcesses(tmp_path, zookeeper, 2, AUTHORIZER) as cluster:
        follow_each_other(cluster)
        first, second = cluster.brokers.values()
        allow(first.address, of_alice("visits"))
        second.stop()
        allow(first.address, of_alice("orders"))
        second.start()
        assert stored(second.address) == {of_alice("visits"), of_alice("orders")}
        assert not is_shown(second.address, "visits")


def test_broker_does_not_start_over_rules_that_it_cannot_read(tmp_path, zookeeper):
    broker = BrokerProcess(1, tmp_path, zookeeper, AUTHORIZER)
    broker.start()
    assert broker.stop() == 0
    with zookeeper_client(zookeeper) as client:
        client.create("/kafka-acl/Topic/visits", b'{"version":1,"acls":[{"principal":"User:a"}]}')
    broker.start(wait=False)
    assert broker.process is not None
    assert broker.process.wait(PROCESS_PATIENCE) == 2
    last = broker.text().splitlines()[-1]
    assert last.startswith("milepost: /kafka-acl/Topic/visits holds ACLs that cannot be read (1 such znodes)")


@pytest.mark.kafka
def test_kafka_and_ours_obey_each_others_rules(tmp_path, zookeeper):
    with MixedProcesses(tmp_path, zookeeper, ["milepost", "kafka"], AUTHORIZER) as cluster:
        follow_each_other(cluster)
        with zookeeper_client(zookeeper) as client:
            for giver in cluster.brokers.values():
                allow(giver.address, of_alice(f"of-{giver.broker_id}"))
                allow(giver.address, of_alice(f"of-{giver.broker_id}", PREFIXED))
            for root in ("/kafka-acl/Topic", "/kafka-acl-extended/prefixed/Topic"):
                contents = {client.get(f"{root}/of-{number}")[0] for number in cluster.brokers}
                assert contents == {
                    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
                }
            notes = {
                (path, client.get(f"{path}/{name}")[0].replace(b"of-1", b"of-N").replace(b"of-2", b"of-N"))
                for path in ("/kafka-acl-changes", "/kafka-acl-extended-changes")
                for name in sorted(client.get_children(path))[-2:]
            }
            assert len(notes) == 2, notes
