"""Sarama, set for a broker of 2.8 (its own default) and of 4.3: the program in `sarama` does what its users do and prints what it sees."""

from __future__ import annotations

import pytest

from tests.clients.client import Client, pinned
from tests.clients.programs import HERE, Seen, expected, go_program, run, stored_as_sent
from tests.clients.situations import CONSUMER_PROTOCOL, covers

LACKS = {CONSUMER_PROTOCOL: "it has the classic protocol only"}
CLIENTS = [Client("Sarama", "Go", pinned(HERE / "sarama/go.mod", "github.com/IBM/sarama"))]


def see(bootstrap: str, prefix: str, version: str = "4.3.0") -> Seen:
    return run([str(go_program("sarama")), bootstrap, prefix, version])


@pytest.mark.parametrize("version", ["2.8.0", "4.3.0"])
@covers(*expected(LACKS))
def test_sarama_sees_what_it_would_see_of_kafka(served, compare, version):
    prefix = f"sarama-{version}-"
    compare(*see(served.bootstrap, prefix, version), LACKS)
    stored_as_sent(served, prefix, LACKS)
