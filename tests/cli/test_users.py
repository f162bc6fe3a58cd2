"""Users of a secured broker, and commands that log in to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from tests.broker import secured
from tests.cli.running import Ran, run
from tests.security.certificates import authority


class Served:
    def __init__(self, broker, directory: Path):
        self.broker = broker
        self.directory = directory
        (directory / "authority.pem").write_text(authority().pem)

    def ask(self, *arguments: str, given: str = "", protocol: str = "PLAINTEXT", login: dict[str, str] | None = None) -> Ran:
        options = ["--bootstrap-server", secured.address(self.broker, protocol)]
        if protocol != "PLAINTEXT" or login:
            options += ["--client-config", str(self.config(protocol, login or {}))]
        return run(*arguments, *options, stdin=given.encode())

    def config(self, protocol: str, login: dict[str, str]) -> Path:
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / "authority.pem")}
        path = self.directory / "client.properties"
        properties = {"security.protocol": protocol, **(trusted if protocol.endswith("SSL") else {}), **login}
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path


def login(user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    module = f"org.apache.kafka.common.security.{kind}LoginModule"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f'{module} required username="{user}" password="{password}";'}


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("secured")
    with Life(AloneBroker({"log.dirs": str(directory / "data"), **secured.settings(directory)})) as broker:
        yield Served(broker, directory)


def test_user_is_made_listed_logs_in_and_is_deleted(served):
    assert served.ask("users", "create", "bob", given="b secret\n").lines == [
        "user bob has a password for SCRAM-SHA-256, SCRAM-SHA-512"
    ]
    only = served.ask("users", "create", "carol", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", given="x\n")
    assert only.lines == ["user carol has a password for SCRAM-SHA-512"]
    assert [line.split() for line in served.ask("users", "list").lines[1:]] == [
        ["bob", "SCRAM-SHA-256", "4096"],
        ["bob", "SCRAM-SHA-512", "4096"],
        ["carol", "SCRAM-SHA-512", "8192"],
    ]
    listed = [json.loads(line) for line in served.ask("users", "list", "--json").lines]
    assert listed == [
        {"name": "bob", "iterations": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}},
        {"name": "carol", "iterations": {"SCRAM-SHA-512": 8192}},
    ]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        ran = served.ask("topics", "list", protocol="SASL_SSL", login=login("bob", "b secret", mechanism))
        assert (ran.code, ran.errors) == (0, [])
    for name in ("bob", "carol"):
        assert served.ask("users", "delete", name).lines == [f"user {name} is gone"]
    refused = served.ask("topics", "list", protocol="SASL_SSL", login=login("bob", "b secret"))
    assert (refused.code, refused.lines) == (4, [])
    assert refused.errors == [
        "milepost: bob is not let in: Authentication failed during authentication due to invalid credentials with SASL mechanism "
        "SCRAM-SHA-512"
    ]


def test_user_that_is_not_there_cannot_be_deleted(served):
    refused = served.ask("users", "delete", "nobody")
    assert (refused.code, refused.lines) == (4, [])
    assert "nobody" in refused.errors[0]


def test_empty_password_is_refused(served):
    refused = served.ask("users", "create", "bob", given="\n")
    assert (refused.code, refused.lines) == (2, [])
    assert refused.errors[0].startswith("milepost: the password is empty")


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_records_go_in_and_out_over_every_protocol(served, protocol):
    known = login("alice", "a secret", "PLAIN") if protocol.startswith("SASL") else {}
    topic = f"t-{protocol}"
    assert served.ask("topics", "create", topic, protocol=protocol, login=known).code == 0
    assert served.ask("produce", topic, given="one\ntwo\n", protocol=protocol, login=known).code == 0
    read = served.ask("consume", topic, "--from-beginning", "--max-messages", "2", protocol=protocol, login=known)
    assert (read.code, len(read.lines)) == (0, 2)


@pytest.mark.parametrize(
    ("protocol", "changed", "told"),
    [
        ("SASL_SSL", {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: 'GSSAPI' is not served"),
        ("SASL_SSL", {"sasl.jaas.config": "x"}, "sasl.jaas.config: it is not of the form"),
        ("SASL_SSL", {"ssl.truststore.location": "/nowhere"}, "ssl.truststore.location: /nowhere cannot be read"),
        ("SASL_SSL", {"sasl.login.class": "x"}, "sasl.login.class: milepost's clients do not know this"),
        ("TELEPATHY", {}, "security.protocol: 'TELEPATHY' is none"),
    ],
)
def test_mistake_in_the_file_is_one_sentence(served, protocol, changed, told):
    refused = served.ask(
        "topics", "list", protocol="SASL_SSL", login={**login("alice", "a secret"), **changed, "security.protocol": protocol}
    )
    assert (refused.code, refused.lines, len(refused.errors)) == (2, [], 1)
    assert told in refused.errors[0]
    assert "a secret" not in refused.errors[0]


def test_broker_that_nobody_trusted_has_signed_gets_no_password(served):
    config = served.config("SASL_SSL", login("alice", "a secret", "PLAIN"))
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "truststore" not in line))
    refused = run(
        "topics", "list", "--bootstrap-server", secured.address(served.broker, "SASL_SSL"), "--client-config", str(config)
    )
    assert (refused.code, refused.lines) == (4, [])
    assert "does not prove that it is the broker" in refused.errors[0]


def test_first_user_is_made_while_the_broker_does_not_run(tmp_path):
    data = tmp_path / "data"
    made = run("users", "create", "bob", "--data", str(data), stdin=b"b secret\n")
    assert (made.code, made.errors) == (0, [])
    given = {**secured.settings(tmp_path), "listeners": "SASL_SSL://127.0.0.1:0", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    given = {name: value for name, value in given.items() if "jaas" not in name}
    with Life(AloneBroker({"log.dirs": str(data), **given})) as broker:
        served = Served(broker, tmp_path)
        assert served.ask("topics", "list", protocol="SASL_SSL", login=login("bob", "b secret")).code == 0
        refused = run("users", "create", "bob", "--data", str(data), stdin=b"another\n")
        assert refused.code == 3
        assert "has it open" in refused.errors[0]
    assert run("users", "create", "bob", "--data", str(data), stdin=b"another\n").code == 0
    with Life(AloneBroker({"log.dirs": str(data), **given})) as broker:
        served = Served(broker, tmp_path)
        assert served.ask("topics", "list", protocol="SASL_SSL", login=login("bob", "another")).code == 0
        assert served.ask("topics", "list", protocol="SASL_SSL", login=login("bob", "b secret")).code == 4
