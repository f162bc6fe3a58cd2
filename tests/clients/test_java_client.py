"""Kafka's Java client, of 3.9.1 and of 4.3.0: `JavaClient.java` does what its users do and prints what it sees.

One program for each version: compiling it and starting a JVM takes longer than all that it does.
"""

from __future__ import annotations

import pytest

from tests.clients.client import kafka_clients
from tests.clients.java_tools import CLIENT, java_command
from tests.clients.programs import Seen, expected, run, stored_as_sent
from tests.clients.situations import covers

pytestmark = pytest.mark.kafka
LACKS: dict[str, str] = {}
CLIENTS = kafka_clients("Java", "Java")


def see(bootstrap: str, prefix: str, version: str = "4.3.0") -> Seen:
    return run(java_command(version, str(CLIENT), bootstrap, prefix))


@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
@covers(*expected(LACKS))
def test_the_java_client_sees_what_it_would_see_of_kafka(served, compare, version):
    prefix = f"java-{version}-"
    compare(*see(served.bootstrap, prefix, version), LACKS)
    stored_as_sent(served, prefix, LACKS)
