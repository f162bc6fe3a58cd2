"""A configuration that promises what is not served ends the start: no broker comes up open where its operator believes it closed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from milepost import Broker
from milepost.errors import InvalidConfiguration
from milepost.testing.cluster import KafkaCluster
from tests.broker.settings import BROKER, SET, alter
from tests.cli.running import run

COMMAND = [sys.executable, "-W", "error", "-c", "from milepost.cli.main import main; main(prog_name='milepost')", "serve"]

PROMISES = [
    ("authorizer.class.name", "com.example.Authorizer"),
    ("super.users", "User:admin"),
    ("allow.everyone.if.no.acl.found", "false"),
    ("ssl.keystore.location", "/etc/kafka/server.jks"),
    ("ssl.client.auth", "required"),
    ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
    ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
    ("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required;"),
    ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", "x"),
    ("listener.name.internal.ssl.keystore.location", "/etc/kafka/server.jks"),
    ("security.inter.broker.protocol", "SSL"),
    ("security.providers", "com.example.Provider"),
    ("principal.builder.class", "com.example.Builder"),
    ("connections.max.reauth.ms", "3600000"),
    ("delegation.token.secret.key", "secret"),
    ("password.encoder.secret", "secret"),
    ("zookeeper.ssl.client.enable", "true"),
    ("zookeeper.ssl.keystore.location", "/etc/kafka/zk.jks"),
    ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
    ("zookeeper.set.acl", "true"),
    ("zookeeper.metadata.migration.enable", "true"),
    ("create.topic.policy.class.name", "com.example.Policy"),
    ("alter.config.policy.class.name", "com.example.Policy"),
    ("client.quota.callback.class", "com.example.Callback"),
    ("process.roles", "broker,controller"),
    ("controller.quorum.voters", "1@localhost:9093"),
    ("controller.listener.names", "CONTROLLER"),
    ("remote.log.storage.system.enable", "true"),
    ("transaction.two.phase.commit.enable", "true"),
    ("config.providers", "file"),
    ("listeners", "SASL_SSL://127.0.0.1:0"),
    ("listeners", "SSL://127.0.0.1:0"),
    ("listeners", "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"),
    ("listener.security.protocol.map", "PLAINTEXT:SASL_SSL"),
]
SAME_AS_SERVED = [
    ("authorizer.class.name", ""),
    ("super.users", ""),
    ("allow.everyone.if.no.acl.found", "true"),
    ("ssl.client.auth", "none"),
    ("security.inter.broker.protocol", "PLAINTEXT"),
    ("zookeeper.set.acl", "false"),
    ("zookeeper.ssl.client.enable", "false"),
    ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNIO"),
    ("connections.max.reauth.ms", "0"),
    ("process.roles", ""),
    ("remote.log.storage.system.enable", "false"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"),
]
WRONG_LISTENERS = [
    ({"inter.broker.listener.name": "REPL"}, "inter.broker.listener.name"),
    ({"control.plane.listener.name": "CONTROL"}, "control.plane.listener.name"),
    ({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}, "inter.broker.listener.name"),
    ({"inter.broker.listener.name": "PLAINTEXT", "control.plane.listener.name": "PLAINTEXT"}, "control.plane.listener.name"),
    ({"advertised.listeners": "EXTERNAL://kafka.example.org:9092"}, "advertised.listeners"),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
    ({"advertised.listeners": "PLAINTEXT://[::]:9092"}, "advertised.listeners"),
    ({"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "advertised.listeners"),
    ({"advertised.listeners": "nonsense"}, "advertised.listeners"),
    ({"listeners": "INTERNAL://127.0.0.1:0"}, "listeners"),
    ({"listeners": "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"}, "listeners"),
    ({"listeners": ""}, "listeners"),
    ({"listeners": "PLAINTEXT://127.0.0.1:0", "listener.security.protocol.map": "OTHER:PLAINTEXT"}, "listeners"),
    ({"listener.security.protocol.map": "PLAINTEXT:TELEPATHY"}, "listener.security.protocol.map"),
]


def start(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """How `milepost serve` ends: by itself, or because it came up and was told to stop."""
    environment = {**os.environ, **(env or {})}
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("ready "):
                process.terminate()
        assert process.stderr is not None
        errors = process.stderr.read()
    return process.returncode, "".join(lines), errors


def variable(name: str) -> str:
    return "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def test_file_that_promises_authentication_ends_the_start_and_is_told_its_line(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\n\nlisteners=SASL_SSL://127.0.0.1:0\nssl.keystore.location=/etc/k.jks\n")
    code, out, errors = start("--data", str(tmp_path / "data"), "--config", str(file))
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert f"{file}, line 3: listeners: SASL_SSL is SASL_SSL and needs ways to log in: give sasl.enabled.mechanisms" in errors
    assert not (tmp_path / "data").exists()


def test_every_promise_of_a_file_is_named_at_once(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.set.acl=true\nprincipal.builder.class=x.Y\ndelegation.token.secret.key=x\n")
    code, out, errors = start("--data", str(tmp_path / "data"), "--port", "0", "--config", str(file))
    assert (code, out) == (2, "")
    for line, name in enumerate(("zookeeper.set.acl", "principal.builder.class", "delegation.token.secret.key"), 1):
        assert f"{file}, line {line}: {name}" in errors


def test_listeners_with_tls_end_the_start(tmp_path):
    code, out, errors = start("--data", str(tmp_path / "data"), "-X", "listeners=SASL_SSL://127.0.0.1:0")
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert "listeners" in errors and "SASL_SSL" in errors


@pytest.mark.parametrize("listeners", ["SASL_SSL://127.0.0.1:0", "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"])
@pytest.mark.parametrize("source", ["file", "flag", "environment"])
def test_port_does_not_take_back_what_listeners_promise(tmp_path, listeners, source):
    file = tmp_path / "server.properties"
    file.write_text(f"listeners={listeners}\n" if source == "file" else "")
    flags = ["-X", f"listeners={listeners}"] if source == "flag" else []
    env = {"KAFKA_LISTENERS": listeners} if source == "environment" else {}
    code, out, errors = start("--data", str(tmp_path / "data"), "--port", "0", "--config", str(file), *flags, env=env)
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert "SSL" in errors and "listeners" in errors


def test_port_replaces_listeners_that_promise_nothing(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://192.0.2.1:9092\n")
    code, out, errors = start("--data", str(tmp_path / "data"), "--port", "0", "--config", str(file))
    assert (code, errors) == (0, "")
    assert "ready 127.0.0.1:" in out


def test_environment_of_a_container_is_read_the_same_way(tmp_path):
    code, out, errors = start(
        "--data", str(tmp_path), "--port", "0", env={"KAFKA_AUTHORIZER_CLASS_NAME": "com.example.Authorizer"}
    )
    assert (code, out) == (2, "")
    assert "KAFKA_AUTHORIZER_CLASS_NAME: authorizer.class.name" in errors


def test_flag_takes_a_promise_of_the_file_back(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("sasl.enabled.mechanisms=PLAIN\n")
    code, out, errors = start(
        "--data", str(tmp_path / "data"), "--port", "0", "--config", str(file), "-X", "sasl.enabled.mechanisms="
    )
    assert (code, errors) == (0, "")
    assert "ready " in out


@pytest.mark.parametrize(("name", "value"), PROMISES)
def test_promise_is_refused_from_file_flag_environment_and_program(tmp_path, name, value):
    file = tmp_path / "server.properties"
    file.write_text(f"num.partitions=3\n{name}={value}\n")
    for arguments, env, place in (
        (["--config", str(file)], {}, f"{file}, line 2: {name}"),
        (["-X", f"{name}={value}"], {}, f"-X {name}: {name}"),
        ([], {variable(name): value}, f"{variable(name)}: "),
    ):
        ran = run("config", "show", *arguments, env=env)
        assert (ran.code, ran.lines, len(ran.errors)) == (2, [], 1), arguments
        assert ran.errors[0].startswith(f"milepost: {place}")
        assert name.lower() in ran.errors[0].lower()
    with pytest.raises(InvalidConfiguration, match=name.replace(".", r"\.")):
        Broker(config={name: value})


@pytest.mark.parametrize(("name", "value"), SAME_AS_SERVED)
def test_value_that_promises_nothing_more_is_taken_without_a_word(tmp_path, name, value):
    file = tmp_path / "server.properties"
    file.write_text(f"{name}={value}\n")
    assert run("config", "show", "--config", str(file))[::2] == (0, [])
    assert run("config", "show", "-X", f"{name}={value}")[::2] == (0, [])
    with Broker(config={name: value}) as broker:
        assert broker.is_running


@pytest.mark.parametrize(("settings", "named"), WRONG_LISTENERS)
def test_listeners_that_kafka_refuses_are_refused(settings, named):
    with pytest.raises(InvalidConfiguration, match=named.replace(".", r"\.")):
        Broker(config=settings)


def test_listeners_that_kafka_takes_are_taken():
    settings = {
        "listeners": "client://127.0.0.1:0,REPL://127.0.0.1:0,CTRL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,repl:plaintext,CTRL:PLAINTEXT,OTHER:SSL",
        "inter.broker.listener.name": "REPL",
        "control.plane.listener.name": "CTRL",
        "advertised.listeners": "CLIENT://kafka.example.org:9092,REPL://10.0.0.1:9093,CTRL://10.0.0.1:9094",
    }
    with Broker(config=settings) as broker:
        assert broker.bootstrap_servers == "kafka.example.org:9092"


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["-X", "authorizer.class.name=x.Y"], {}),
        (["-X", "sasl.enabled.mechanisms=PLAIN"], {}),
        (["-X", "num.partitions=many"], {}),
        ([], {"KAFKA_SUPER_USERS": "User:admin"}),
    ],
)
def test_cluster_with_a_promise_is_refused_before_anything_is_started(tmp_path, arguments, env):
    ran = run("cluster", "start", "--data", tmp_path / "cluster", "--port-base", 0, *arguments, env=env)
    assert (ran.code, ran.lines, len(ran.errors)) == (2, [], 1)
    assert not (tmp_path / "cluster").exists()


def test_fixture_of_a_cluster_refuses_it_too(tmp_path):
    with pytest.raises(InvalidConfiguration, match=r"super\.users"):
        KafkaCluster(str(tmp_path), "127.0.0.1:1", 3, {"super.users": "User:admin"})


@pytest.mark.parametrize("resource", ["0", ""])
@pytest.mark.parametrize(("name", "value"), PROMISES)
def test_promise_cannot_be_made_while_the_broker_runs(wire, resource, name, value):
    code, message = alter(wire, BROKER, resource, (name, SET, value))
    assert code == 42
    assert name in message
    assert alter(wire, BROKER, resource, ("message.max.bytes", SET, "1048588"))[0] == 0
