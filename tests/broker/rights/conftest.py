"""A broker with an authorizer, and a client that has the rights it is given and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.security.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.broker.on_loop import on_loop
from tests.broker.rights.cases import NAMES, Right
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ME = "User:ANONYMOUS"


class Closed:
    """`allow` takes all rights away that were given before."""

    def __init__(self, broker: Broker, wire: Wire):
        self.broker = broker
        self.wire = wire
        self.allow_all()
        (self.topic_id,) = create(wire, wanted("visits"))
        self.allow()

    def allow_all(self) -> None:
        self.allow(
            *((kind, Operation.ALL) for kind in NAMES), names={**dict.fromkeys(NAMES, "*"), ResourceType.CLUSTER: CLUSTER_NAME}
        )

    def allow(self, *rights: Right, names: Mapping[ResourceType, str] = NAMES) -> None:
        self.rules(*(rule(kind, operation, names[kind]) for kind, operation in rights))

    def rules(self, *bindings: AclBinding) -> None:
        def give() -> None:
            authorizer = self.broker.acl_authorizer
            assert authorizer is not None and authorizer.acls is not None
            for each in authorizer.acls:
                authorizer.acls.remove(each)
            for each in bindings:
                authorizer.acls.add(each)

        on_loop(self.broker, give)


def rule(kind: ResourceType, operation: Operation, name: str, pattern_type: PatternType = PatternType.LITERAL) -> AclBinding:
    return AclBinding(ResourcePattern(kind, name, pattern_type), ME, "*", operation, Permission.ALLOW)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    given = {
        "log.dirs": str(tmp_path_factory.mktemp("closed")),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "authorizer.class.name": STANDARD,
    }
    with Life(AloneBroker(given)) as broker, Wire(broker.bootstrap_servers) as wire:
        yield Closed(broker, wire)
