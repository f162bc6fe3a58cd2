"""The rdkafka crate, which brings a librdkafka of its own: the program in `rdkafka` does what its users do and prints what it sees."""

from __future__ import annotations

from tests.clients.client import Client, pinned
from tests.clients.programs import HERE, Seen, expected, run, rust_program, stored_as_sent
from tests.clients.situations import covers

LACKS: dict[str, str] = {}
CLIENTS = [Client("rdkafka", "Rust", pinned(HERE / "rdkafka/Cargo.toml", "rdkafka"))]


def see(bootstrap: str, prefix: str) -> Seen:
    return run([str(rust_program("rdkafka")), bootstrap, prefix])


@covers(*expected(LACKS))
def test_rdkafka_sees_what_it_would_see_of_kafka(served, compare):
    compare(*see(served.bootstrap, "rdkafka-"), LACKS)
    stored_as_sent(served, "rdkafka-", LACKS)
