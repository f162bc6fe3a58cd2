"""franz-go: the program in `franz_go` does what its users do and prints what it sees."""

from __future__ import annotations

from tests.clients.client import Client, pinned
from tests.clients.programs import HERE, Seen, expected, go_program, run, stored_as_sent
from tests.clients.situations import covers

LACKS: dict[str, str] = {}
CLIENTS = [Client("franz-go", "Go", pinned(HERE / "franz_go/go.mod", "github.com/twmb/franz-go"))]


def see(bootstrap: str, prefix: str) -> Seen:
    return run([str(go_program("franz_go")), bootstrap, prefix])


@covers(*expected(LACKS))
def test_franz_go_sees_what_it_would_see_of_kafka(served, compare):
    compare(*see(served.bootstrap, "franz-go-"), LACKS)
    stored_as_sent(served, "franz-go-", LACKS)
