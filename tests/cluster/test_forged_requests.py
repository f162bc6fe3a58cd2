"""Somebody reaches a cluster and says that it is the controller, another broker, a follower or a coordinator: nothing comes of it."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from milepost.broker.inter_broker import KEYS
from milepost.protocol import generated
from milepost.protocol.apis import BY_KEY
from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ApiVersionsRequest,
    ControlledShutdownRequest,
    DescribeProducersRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    WriteTxnMarkersRequest,
)
from milepost.security.scram import ScramClient
from tests.broker.talking import batch, produce_request
from tests.broker.wire import Wire
from tests.cluster.asking import leaders, metadata, node, until, zookeeper_client
from tests.cluster.forging import TOPIC, ensure_unharmed, id_bytes, lead, stop_replica, tell, wire_to
from tests.cluster.processes import BrokerProcess, ClusterProcesses, free_port
from tests.cluster.proving import prove, secret_of
from tests.cluster.writing import create_topic
from tests.fuzz.driven_broker import error_codes
from tests.hostile.test_bodies import filled
from tests.hostile.test_inter_broker import CONTROLLER_AND_BROKERS
from tests.waiting import PROCESS_PATIENCE

SETTINGS = {"transaction.state.log.replication.factor": "2"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    directory = tmp_path_factory.mktemp("forged")
    with ClusterProcesses(directory, f"{zookeeper_server.address}/{directory.name}", 2, SETTINGS) as cluster:
        create_topic(cluster, TOPIC, 1, 2)
        cluster.wait_until_in_sync(TOPIC)
        yield cluster


@pytest.fixture(scope="module")
def secret(cluster):
    return secret_of(cluster.zookeeper)


@pytest.fixture(scope="module")
def epochs(cluster):
    """Of the controller, and of each broker: anybody can read them off ZooKeeper, or guess."""
    with zookeeper_client(cluster.zookeeper) as client:
        brokers = {number: client.exists(f"/brokers/ids/{number}").czxid for number in cluster.brokers}
        return int(client.get("/controller_epoch")[0]), brokers


@pytest.fixture
def controller(cluster):
    return metadata(cluster.bootstrap).controller_id


@pytest.fixture
def leader(cluster):
    return leaders(cluster.bootstrap, TOPIC)[0]


@contextmanager
def proven(cluster, secret, to, broker_id=None):
    with wire_to(cluster, to) as wire:
        prove(wire, secret, to if broker_id is None else broker_id, to)
        yield wire


@pytest.mark.parametrize("broker_epoch", ["right", -1], ids=["guessed epoch", "no epoch"])
def test_whoever_says_that_it_is_the_controller(cluster, controller, leader, epochs, broker_epoch):
    controller_epoch, registered = epochs
    for number in cluster.brokers:
        epoch = registered[number] if broker_epoch == "right" else broker_epoch
        with wire_to(cluster, number) as wire:
            assert wire.ask(stop_replica(controller, controller_epoch, epoch), 4).error_code == 31
            assert wire.ask(lead(cluster, controller, controller_epoch, epoch, leader), 7).error_code == 31
            assert wire.ask(tell(controller, controller_epoch, epoch), 8).error_code == 31
    ensure_unharmed(cluster)


def test_whoever_says_that_it_is_another_broker(cluster, controller, leader, epochs):
    part = AlterPartitionRequest.Topic.Partition(
        partition_index=0,
        leader_epoch=0,
        partition_epoch=0,
        new_isr_with_epochs=[AlterPartitionRequest.Topic.Partition.NewIsrWithEpoch(broker_id=leader, broker_epoch=-1)],
    )
    alter = AlterPartitionRequest.Topic(topic_id=id_bytes(cluster), partitions=[part])
    with wire_to(cluster, controller) as wire:
        for number, epoch in epochs[1].items():
            assert wire.ask(ControlledShutdownRequest(broker_id=number, broker_epoch=epoch), 3).error_code == 31
            assert wire.ask(ControlledShutdownRequest(broker_id=number, broker_epoch=-1), 3).error_code == 31
            assert wire.ask(ControlledShutdownRequest(broker_id=number), 1).error_code == 31
            assert wire.ask(AllocateProducerIdsRequest(broker_id=number, broker_epoch=epoch), 0).error_code == 31
            asked = AlterPartitionRequest(broker_id=number, broker_epoch=epoch, topics=[alter])
            assert wire.ask(asked, 3).error_code == 31
    ensure_unharmed(cluster)


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key, (first, last) in CONTROLLER_AND_BROKERS.items() for version in range(first, last + 1)],
)
def test_every_version_of_what_brokers_send(cluster, key, version):
    assert key in KEYS
    message = filled(generated.class_named(BY_KEY[key].name + "Request"), version, 2, False)
    with wire_to(cluster, 1) as wire:
        codes = [code for _, code in error_codes(wire.ask(message, version))]
    assert codes and set(codes) == {31}


def forged_fetch(cluster, version, replica_id, epoch, offset):
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    topic = FetchRequest.Topic(topic=TOPIC, topic_id=id_bytes(cluster), partitions=[part])
    fields = {"replica_id": replica_id}
    if version >= 15:
        fields = {"replica_state": FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=epoch)}
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, session_epoch=-1, topics=[topic], **fields)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_whoever_says_that_it_is_the_follower_commits_nothing(cluster, leader, epochs, version):
    """While the follower sleeps, a record is written that it does not have."""
    (follower,) = cluster.brokers.keys() - {leader}
    latest = ListOffsetsRequest.Topic(name=TOPIC, partitions=[ListOffsetsRequest.Topic.Partition(timestamp=-1)])
    cluster.brokers[follower].send(signal.SIGSTOP)
    try:
        with wire_to(cluster, leader) as wire:

            def end(replica_id):
                asked = ListOffsetsRequest(replica_id=replica_id, topics=[latest])
                return wire.ask(asked, 7).topics[0].partitions[0].offset

            before = end(-1)
            records = batch(b"only here")
            request = produce_request(records, TOPIC, acks=1)
            written = wire.ask(request, 9).responses[0].partition_responses[0]
            assert written.error_code == 0
            for _ in range(3):
                answer = wire.ask(forged_fetch(cluster, version, follower, epochs[1][follower], written.base_offset + 1), version)
                codes = [answer.error_code] if version >= 7 else [answer.responses[0].partitions[0].error_code]
                assert codes == [31]
            committed = end(-1)
            assert committed <= written.base_offset, "a client has committed what one replica has"
            assert end(follower) == end(leader) == committed, "it sees what a consumer does not"
            assert committed >= before
    finally:
        cluster.brokers[follower].send(signal.SIGCONT)
    ensure_unharmed(cluster)


def test_where_an_epoch_ends_is_told_to_everybody_alike(cluster, leader):
    topic = OffsetForLeaderEpochRequest.Topic
    asked = [topic(topic=TOPIC, partitions=[topic.Partition(partition=0, leader_epoch=0)])]
    with wire_to(cluster, leader) as wire:
        found = [wire.ask(OffsetForLeaderEpochRequest(replica_id=each, topics=asked), 4) for each in (-1, 1, 2)]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "client_id", ["AddPartitionsManager-client-1", "AddPartitionsManager-client-2", "broker-1-txn-marker-sender"]
)
def test_a_client_id_grants_nothing(cluster, client_id):
    with wire_to(cluster, 1, client_id) as wire:
        transaction = AddPartitionsToTxnRequest.Transaction(transactional_id="t", producer_id=1, verify_only=True)
        for version in (4, 5):
            answer = wire.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
            assert (answer.error_code, answer.results_by_transaction) == (31, [])


def test_whoever_says_that_it_is_the_coordinator(cluster, leader):
    """It may abort what is open, as an administrator; it neither commits nor locks anybody out."""
    with wire_to(cluster, leader) as wire:
        # A transaction of an id whose coordinator is asked first.
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "pays", "log_level": 0})
        producer.init_transactions(PROCESS_PATIENCE)
        producer.begin_transaction()
        producer.produce(TOPIC, b"money", partition=0)
        assert producer.flush(PROCESS_PATIENCE) == 0

        def open_ones():
            topic = DescribeProducersRequest.Topic(name=TOPIC, partition_indexes=[0])
            (found,) = wire.ask(DescribeProducersRequest(topics=[topic]), 0).topics[0].partitions
            return [each for each in found.active_producers if each.current_txn_start_offset >= 0]

        (open_one,) = open_ones()
        producer_id, epoch = open_one.producer_id, open_one.producer_epoch

        def mark(committed, epoch, coordinator_epoch=0, producer_id=producer_id):
            marker = WriteTxnMarkersRequest.Marker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=committed,
                coordinator_epoch=coordinator_epoch,
                topics=[WriteTxnMarkersRequest.Marker.Topic(name=TOPIC, partition_indexes=[0])],
            )
            (answer,) = wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1).markers
            return answer.topics[0].partitions[0].error_code

        assert mark(True, epoch) == 31
        assert mark(False, epoch + 1) == 47
        assert mark(False, epoch, coordinator_epoch=1_000_000) == 31
        assert mark(False, 0, producer_id=123_456) == 48
        producer.commit_transaction(PROCESS_PATIENCE)
        until(lambda: not open_ones(), "the coordinator has ended it")
        assert mark(False, epoch) == 48
        producer.begin_transaction()
        producer.produce(TOPIC, b"more", partition=0)
        producer.commit_transaction(PROCESS_PATIENCE)


# The proof.


@pytest.mark.parametrize("wrong", ["secret", "addressee", "replayed", "out of turn", "mechanism", "no number"])
def test_proof_that_fails_leaves_a_stranger(cluster, secret, leader, wrong):
    (other,) = cluster.brokers.keys() - {leader}
    client = ScramClient(
        "broker" if wrong == "no number" else str(other),
        b"guess" * 8 if wrong == "secret" else secret,
        str(other if wrong == "addressee" else leader),
        lambda: "nonce",
    )
    with wire_to(cluster, leader) as wire:

        def say(message):
            return wire.ask(SaslAuthenticateRequest(auth_bytes=message), 2)

        if wrong == "mechanism":
            answer = wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert (answer.error_code, answer.mechanisms) == (33, ["SCRAM-SHA-256"])
        elif wrong == "out of turn":
            assert say(client.first()).error_code == 34
        else:
            assert wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
            first = say(client.first())
            if wrong == "addressee":
                assert first.error_code == 58
            else:
                last = client.final(bytes(first.auth_bytes))
                if wrong == "replayed":
                    assert say(last).error_code == 0
                    wire.reconnect()
                    assert wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
                    assert say(client.first()).error_code == 0
                assert say(last).error_code == 58
                assert say(last).error_code == 34
        assert wire.ask(ControlledShutdownRequest(broker_id=other), 1).error_code == 31
        assert wire.ask(forged_fetch(cluster, 12, other, -1, 0), 12).error_code == 31
    ensure_unharmed(cluster)


@pytest.mark.parametrize(
    ("of_controller", "of_broker", "code"),
    [(0, -1, 77), (0, "older", 77), (0, 10**15, 77), (-1, 0, 11), (-100, 0, 11), (1_000_000, 0, 31)],
)
def test_epochs_of_a_proven_controller_are_exact(cluster, secret, controller, leader, epochs, of_controller, of_broker, code):
    controller_epoch = epochs[0] + of_controller
    for number, registered in epochs[1].items():
        epoch = {0: registered, "older": registered - 1}.get(of_broker, of_broker)
        with proven(cluster, secret, number, controller) as wire:
            assert wire.ask(stop_replica(controller, controller_epoch, epoch), 4).error_code == code
            assert wire.ask(lead(cluster, controller, controller_epoch, epoch, leader), 7).error_code == code
            assert wire.ask(tell(controller, controller_epoch, epoch), 8).error_code == code
    ensure_unharmed(cluster)


def test_epoch_of_a_proven_broker_is_exact(cluster, secret, controller, epochs):
    (other,) = cluster.brokers.keys() - {controller}
    with proven(cluster, secret, controller, other) as wire:
        for epoch in (-1, epochs[1][other] - 1, epochs[1][other] + 1):
            assert wire.ask(ControlledShutdownRequest(broker_id=other, broker_epoch=epoch), 3).error_code == 77
            assert wire.ask(AllocateProducerIdsRequest(broker_id=other, broker_epoch=epoch), 0).error_code == 77
            assert wire.ask(AlterPartitionRequest(broker_id=other, broker_epoch=epoch), 3).error_code == 77
        allocated = wire.ask(AllocateProducerIdsRequest(broker_id=other, broker_epoch=epochs[1][other]), 0)
        assert (allocated.error_code, allocated.producer_id_len) == (0, 1000)
    ensure_unharmed(cluster)


def test_proven_broker_speaks_for_itself_only(cluster, secret, controller, leader, epochs):
    (other,) = cluster.brokers.keys() - {leader}
    with proven(cluster, secret, leader, leader) as wire:
        assert wire.ask(forged_fetch(cluster, 17, other, epochs[1][other], 0), 17).error_code == 31
    with proven(cluster, secret, controller, 7) as wire:
        for number, epoch in epochs[1].items():
            assert wire.ask(ControlledShutdownRequest(broker_id=number, broker_epoch=epoch), 3).error_code == 31
            assert wire.ask(AllocateProducerIdsRequest(broker_id=number, broker_epoch=epoch), 0).error_code == 31
            assert wire.ask(AlterPartitionRequest(broker_id=number, broker_epoch=epoch), 3).error_code == 31
    ensure_unharmed(cluster)


def two_listeners(cluster, directory, zookeeper, **settings):
    """A broker that runs, and where other brokers reach it."""
    repl = free_port()
    broker = cluster.brokers[1] = BrokerProcess(1, directory, zookeeper, {})
    broker.settings |= {
        "listeners": f"PLAINTEXT://{broker.address},REPL://127.0.0.1:{repl}",
        "inter.broker.listener.name": "REPL",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPL:PLAINTEXT",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    broker.start()
    return broker, f"127.0.0.1:{repl}"


def test_listener_for_clients_takes_no_proof(tmp_path, zookeeper):
    with ClusterProcesses(tmp_path, zookeeper, 0) as cluster:
        broker, repl = two_listeners(cluster, tmp_path, zookeeper)
        secret = secret_of(zookeeper)
        with Wire(broker.address) as wire:
            answer = wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            assert (answer.error_code, answer.mechanisms) == (34, [])
            assert wire.ask(ControlledShutdownRequest(broker_id=1), 1).error_code == 31
        with Wire(repl) as wire:
            assert wire.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=1), 3).error_code == 31
            prove(wire, secret, 1, 1)
            assert wire.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=1), 3).error_code == 77


def test_setting_for_a_cluster_with_kafka_opens_the_listener_for_brokers_and_no_other(tmp_path, zookeeper):
    with ClusterProcesses(tmp_path, zookeeper, 0) as cluster:
        broker, repl = two_listeners(cluster, tmp_path, zookeeper, milepost_broker_proof_required="false")
        with Wire(broker.address) as wire:
            assert wire.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=1), 3).error_code == 31
        with Wire(repl) as wire:
            assert wire.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=1), 3).error_code == 77
        assert "any client of listener REPL that claims to be a broker" in broker.text()


def test_secret_is_not_told(cluster, secret):
    said = "".join(broker.text() for broker in cluster.brokers.values())
    with zookeeper_client(cluster.zookeeper) as client:
        assert node(client, "/milepost/secret")["secret"] not in said
    with wire_to(cluster, 1) as wire:
        listed = {
            row.api_key for row in wire.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3).api_keys
        }
        assert wire.ask(MetadataRequest(topics=None), 12).topics
    assert {17, 36} <= listed
