"""`milepost serve --secure`: everything is made, once, and nobody else gets in."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.broker.test_serve import serving
from tests.cli.running import run


def ask(address: str, *arguments: str, config: Path | None = None):
    options = [] if config is None else ["--client-config", str(config)]
    return run(*arguments, "--bootstrap-server", address, *options)


def test_broker_and_client_know_each_other_again_after_a_restart(tmp_path):
    client = tmp_path / "data.security" / "client.properties"
    for topic in ("first", "second"):
        with serving(tmp_path / "data", "--secure") as served:
            assert f"client's file    {client} (for --client-config, kafka-topics --command-config and the like)" in served.lines
            made = ask(served.address, "topics", "create", topic, config=client)
            assert (made.code, made.errors) == (0, [])
            listed = ask(served.address, "topics", "list", config=client)
            assert served.stop()[0] == 0
    assert listed.lines == ["first", "second"]


def test_files_are_their_owners(tmp_path):
    with serving(tmp_path / "data", "--secure") as served:
        served.stop()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data.security").iterdir()}
    assert modes == {"authority.pem": 0o600, "broker.pem": 0o600, "client.properties": 0o600}


def test_somebody_else_is_not_let_in_and_a_user_without_rules_may_nothing(tmp_path):
    client = tmp_path / "data.security" / "client.properties"
    with serving(tmp_path / "data", "--secure") as served:
        ask(served.address, "topics", "create", "visits", config=client)
        plain = ask(served.address, "topics", "list")
        made = run(
            *("users", "create", "bob", "--bootstrap-server", served.address, "--client-config", str(client)), stdin=b"b secret\n"
        )
        bob = tmp_path / "bob.properties"
        lines = client.read_text().splitlines()
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        lines[-1] = f'sasl.jaas.config={login} username="bob" password="b secret";'
        bob.write_text("\n".join(lines))
        hidden = ask(served.address, "topics", "list", config=bob)
        denied = ask(served.address, "topics", "delete", "visits", config=bob)
        lines[-1] = lines[-1].replace("b secret", "a guess")
        bob.write_text("\n".join(lines))
        guessed = ask(served.address, "topics", "list", config=bob)
        served.stop()
    assert plain.code == 4
    assert made.code == 0
    assert (hidden.code, hidden.lines) == (0, [])
    assert denied.code == 4
    assert guessed.code == 4
    assert "invalid credentials" in guessed.errors[0]


def test_lost_files_are_made_anew_with_another_password(tmp_path):
    client = tmp_path / "data.security" / "client.properties"
    texts = []
    for _ in range(2):
        with serving(tmp_path / "data", "--secure") as served:
            assert ask(served.address, "topics", "list", config=client).code == 0
            served.stop()
        texts.append(client.read_text())
        (tmp_path / "data.security" / "broker.pem").unlink()
    assert texts[0] != texts[1]
