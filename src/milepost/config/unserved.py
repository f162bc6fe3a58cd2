"""Kafka's broker properties that promise what milepost does not serve: who may connect, what is encrypted, what is allowed, another mode.

A broker that took such a property and came up without it would be open where its operator believes it closed. So it does not come
up: the property ends the start, wherever it was given, and is refused while a broker runs. A value that promises nothing beyond what
is served anyway (`zookeeper.set.acl=false`, an empty `sasl.jaas.config`) has no effect and needs none.

Once one of these is served, its row goes and the property is declared in `config/broker`. Listeners have their own rules, in
`config/listeners`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple


class Unserved(NamedTuple):
    """Names as a pattern in lower case, what they promise, and the values that do not."""

    names: str
    promise: str
    harmless: tuple[str, ...] = ()


AUTHENTICATION, AUTHORIZATION, ENCRYPTION = "authentication", "authorization", "encryption"
KRAFT, POLICY, TIERED = "a KRaft quorum", "a policy", "tiered storage"

UNSERVED = (
    Unserved("early.start.listeners", AUTHORIZATION),
    Unserved("ssl.client.auth", AUTHENTICATION, ("none",)),
    Unserved("ssl.*", ENCRYPTION),
    Unserved("listener.name.*.ssl.*", ENCRYPTION),
    Unserved("sasl.*", AUTHENTICATION),
    Unserved("listener.name.*.sasl.*", AUTHENTICATION),
    Unserved("principal.builder.class", AUTHENTICATION),
    Unserved("listener.name.*.principal.builder.class", AUTHENTICATION),
    Unserved("connections.max.reauth.ms", AUTHENTICATION, ("0",)),
    Unserved("listener.name.*.connections.max.reauth.ms", AUTHENTICATION, ("0",)),
    Unserved("security.providers", ENCRYPTION),
    Unserved("delegation.token.*", AUTHENTICATION),
    Unserved("password.encoder.*", ENCRYPTION),
    Unserved("zookeeper.ssl.client.enable", ENCRYPTION, ("false",)),
    Unserved("zookeeper.ssl.*", ENCRYPTION),
    Unserved("zookeeper.clientcnxnsocket", ENCRYPTION, ("org.apache.zookeeper.clientcnxnsocketnio",)),
    Unserved("zookeeper.set.acl", AUTHORIZATION, ("false",)),
    Unserved("zookeeper.metadata.migration.enable", KRAFT, ("false",)),
    Unserved("*.policy.class.name", POLICY),
    Unserved("client.quota.callback.class", POLICY),
    Unserved("process.roles", KRAFT),
    Unserved("controller.quorum.*", KRAFT),
    Unserved("controller.listener.names", KRAFT),
    Unserved("remote.log.storage.system.enable", TIERED, ("false",)),
    Unserved("transaction.two.phase.commit.enable", "two-phase commit", ("false",)),
    Unserved("config.providers", "values from elsewhere"),
    Unserved("config.providers.*", "values from elsewhere"),
)


def row_of(name: str) -> Unserved | None:
    """The environment knows no upper case, so that the spelling of a name does not count."""
    return next((row for row in UNSERVED if fnmatchcase(name.lower(), row.names)), None)


def unkept_promise(name: str, value: object) -> str | None:
    """What is wrong with giving a property this value; None where nothing is. No value appears in it: some are passwords."""
    row = row_of(name)
    text = "" if value is None else str(value).strip().lower()
    if row is None or text in ("", *row.harmless):
        return None
    served = f", or give {row.harmless[0]}" if row.harmless else ""
    return f"{name} promises {row.promise}, which milepost does not serve: take the property out{served}"


def unkept_promises(given: Mapping[str, object]) -> list[str]:
    return [fault for name, value in given.items() if (fault := unkept_promise(name, value)) is not None]
