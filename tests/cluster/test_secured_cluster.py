"""A cluster that clients log in to: users lie in ZooKeeper, and every broker knows them. Brokers have a listener of their own."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from milepost.client.cluster import Cluster
from milepost.client.security import ClientSecurity, Login, client_security
from milepost.client.users import delete_user, list_users, set_password
from milepost.config.broker import BrokerConfig
from milepost.errors import AuthenticationFailed, InvalidConfiguration
from tests.broker import secured
from tests.cluster.asking import until, zookeeper_client
from tests.cluster.processes import ClusterProcesses, free_port, running_zookeeper
from tests.security.certificates import authority


def trusting(directory, **more: str) -> ClientSecurity:
    (directory / "authority.pem").write_text(authority().pem)
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(directory / "authority.pem")}
    return client_security({**trusted, **more})


def test_users_of_a_cluster_log_in_to_every_broker(tmp_path):
    ports = {number: free_port() for number in (1, 2, 3)}
    given = secured.settings(tmp_path, **{"inter.broker.listener.name": "PLAINTEXT"})
    del given["listeners"]
    with running_zookeeper(tmp_path / "zookeeper") as server:
        cluster = ClusterProcesses(tmp_path, server.address, settings=given)
        for number, broker in cluster.brokers.items():
            broker.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port},SASL_SSL://127.0.0.1:{ports[number]}"
            for name in [name for name in broker.settings if name.startswith("listener.name.sasl_plaintext")]:
                del broker.settings[name]
        with cluster:
            with Cluster(cluster.bootstrap) as administrator:
                set_password(administrator, "bob", "b secret", ["SCRAM-SHA-512"])
                assert [(user.name, user.iterations) for user in list_users(administrator)] == [("bob", {"SCRAM-SHA-512": 4096})]
            with zookeeper_client(server.address) as client:
                text = client.get("/config/users/bob")[0].decode()
                assert text.startswith('{"version":1,"config":{"SCRAM-SHA-512":"salt=')
                assert text.endswith(',iterations=4096"}}')
            tls = trusting(tmp_path, **{"security.protocol": "SSL"}).tls
            known = ClientSecurity(tls, Login("SCRAM-SHA-512", "bob", "b secret"))
            for port in ports.values():

                def logs_in(port: int = port) -> bool:
                    try:
                        with Cluster(f"127.0.0.1:{port}", security=known) as cluster:
                            cluster.refresh([])
                    except AuthenticationFailed:
                        return False  # it has not heard of the user yet
                    return True

                until(logs_in, "a broker does not know the user")
            settings = {
                "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports.values()),
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(tmp_path / "authority.pem"),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "bob",
                "sasl.password": "b secret",
            }
            producer = Producer(settings)
            for number in range(100):
                producer.produce("visits", b"%d" % number)
            assert producer.flush(60) == 0
            told = AdminClient(settings).list_topics(timeout=60).brokers.values()
            assert {each.port for each in told} == set(ports.values())
            consumer = Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})
            consumer.subscribe(["visits"])
            read: list[bytes] = []
            while len(read) < 100:
                read += [message.value() for message in consumer.consume(100, 1.0) if message.error() is None]
            consumer.close()
            assert sorted(read) == sorted(b"%d" % number for number in range(100))
            with Cluster(cluster.bootstrap) as administrator:
                delete_user(administrator, "bob")
                assert list_users(administrator) == []
            with pytest.raises(AuthenticationFailed, match="invalid credentials"):
                until(lambda: Cluster(f"127.0.0.1:{ports[1]}", security=known).refresh([]) is None, "never")


@pytest.mark.parametrize("role", ["inter.broker.listener.name", "control.plane.listener.name"])
def test_brokers_have_a_listener_of_plain_text(tmp_path, role):
    given = secured.settings(tmp_path, **{"zookeeper.connect": "127.0.0.1:1", role: "SASL_SSL"})
    with pytest.raises(InvalidConfiguration, match="brokers among each other speak PLAINTEXT, and SASL_SSL is SASL_SSL"):
        BrokerConfig.parse(given)


def test_brokers_replicate_behind_an_authorizer_and_strangers_do_nothing(tmp_path):
    """No rule and no super user is needed for them: they have proven to be brokers of the cluster."""
    ports = {number: free_port() for number in (1, 2, 3)}
    given = secured.settings(tmp_path, **{"inter.broker.listener.name": "PLAINTEXT", "min.insync.replicas": "3"})
    given |= {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:admin"}
    with running_zookeeper(tmp_path / "zookeeper") as server:
        cluster = ClusterProcesses(tmp_path, server.address, settings={})
        for number, broker in cluster.brokers.items():
            broker.settings |= {name: value for name, value in given.items() if "sasl_plaintext" not in name}
            broker.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port},SASL_SSL://127.0.0.1:{ports[number]}"
        with cluster:
            (tmp_path / "authority.pem").write_text(authority().pem)
            settings = {
                "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports.values()),
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(tmp_path / "authority.pem"),
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": "admin secret",
            }
            administrator = AdminClient(settings)
            for future in administrator.create_topics([NewTopic("visits", 3, 3)]).values():
                future.result(60)
            producer = Producer({**settings, "acks": "all"})
            failed = []
            for number in range(100):
                producer.produce("visits", b"%d" % number, on_delivery=lambda error, _: failed.append(error) if error else None)
            assert producer.flush(120) == 0
            assert failed == []
            stranger = AdminClient({"bootstrap.servers": cluster.bootstrap})
            for future in stranger.delete_topics(["visits"]).values():
                with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
                    future.result(60)
