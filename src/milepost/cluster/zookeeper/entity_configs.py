"""Settings in ZooKeeper: /config/topics/T, /config/brokers/N, quotas of users and clients, and how brokers are notified of a change.

To change a setting a broker writes the whole node, then a sequential child of /config/changes. Brokers watch that list,
read what the new children name, and act on it. A broker that reads the list removes what is older than 15 minutes.

    /config/brokers/<default>           all brokers
    /config/users/<default>, /config/clients/<default>, /config/users/U/clients/C, /config/ips/A      quotas

Names of users and clients are percent-encoded in the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Children, Create, Delete, Error, Get, SetData
from milepost.cluster.zookeeper.session import Steps, retried
from milepost.security.scram import ScramCredential, credentials_from

DEFAULT = "<default>"
ALL_BROKERS = ""
CHANGE_EXPIRATION_MS = 15 * 60 * 1000
KINDS = {"user": "users", "client-id": "clients", "ip": "ips"}


class Clients(NamedTuple):
    """What is kept of users and clients: quotas, in the form of `broker/configs/client_quotas`, and what proves the passwords of users, by
    mechanism."""

    quotas: list[dict[str, Any]]
    scram_users: dict[str, dict[str, ScramCredential]]


class Stored(NamedTuple):
    """Everything there is: settings by topic and by broker ("" for all). None for a node that makes no sense."""

    topics: dict[str, dict[str, str] | None]
    brokers: dict[str, dict[str, str] | None]
    clients: Clients


def broker_entity(name: str) -> str:
    return f"brokers/{DEFAULT if name == ALL_BROKERS else name}"


def topic_entity(name: str) -> str:
    return f"topics/{name}"


# Reading.


def read(entities: Iterable[str]) -> Steps[dict[str, dict[str, str]]]:
    """The settings of each entity (`topics/T`); none for those that have no node. One whose node makes no sense is left out."""
    names = list(entities)
    answers = yield [Get(f"{znodes.CONFIG}/{name}") for name in names]
    found = {}
    for name, answer in zip(names, answers, strict=True):
        configs = znodes.parse_config(answer.data) if answer.ok and answer.data else {}
        if configs is not None and (answer.ok or answer.error is Error.NO_NODE):
            found[name] = configs
    return found


def read_all() -> Steps[Stored]:
    lists = yield [Children(f"{znodes.CONFIG}/{kind}") for kind in ("topics", "brokers")]
    topics, brokers = (listed.children for listed in lists)
    found = yield from read([f"topics/{name}" for name in topics] + [f"brokers/{name}" for name in brokers])
    clients = yield from read_clients()
    return Stored(
        {name: found.get(f"topics/{name}") for name in topics},
        {(ALL_BROKERS if name == DEFAULT else name): found.get(f"brokers/{name}") for name in brokers},
        clients,
    )


def read_clients() -> Steps[Clients]:
    listed = yield [Children(f"{znodes.CONFIG}/{kind}") for kind in KINDS.values()]
    paths = [f"{kind}/{name}" for kind, answer in zip(KINDS.values(), listed, strict=True) for name in answer.children]
    users = [path for path in paths if path.startswith("users/")]
    below = yield [Children(f"{znodes.CONFIG}/{path}/clients") for path in users]
    paths += [f"{path}/clients/{name}" for path, answer in zip(users, below, strict=True) for name in answer.children]
    found = yield from read(paths)
    quotas = []
    scram_users = {}
    for path, configs in found.items():
        if path in users and (credentials := credentials_from(configs)):
            scram_users[unquote(path.removeprefix("users/"))] = credentials
        values = {key: value for key, text in configs.items() if (value := _number(text)) is not None}
        if values:
            quotas.append({"entity": quota_entity(path), "values": dict(sorted(values.items()))})
    return Clients(quotas, scram_users)


def quota_entity(path: str) -> dict[str, str | None]:
    types = {kind: name for name, kind in KINDS.items()}
    parts = path.split("/")
    return dict(
        sorted(
            (types[kind], None if name == DEFAULT else unquote(name)) for kind, name in zip(parts[::2], parts[1::2], strict=True)
        )
    )


def quota_path(entity: Mapping[str, str | None]) -> str:
    """The user comes before the client."""
    parts = [
        f"{KINDS[kind]}/{DEFAULT if entity[kind] is None else quote(entity[kind] or '', safe='')}"
        for kind in KINDS
        if kind in entity
    ]
    return "/".join(parts)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# Changing.


def write(entity: str, configs: Mapping[str, str]) -> Steps[bool]:
    """Store the settings of an entity and write a notification. Whether both were done: if not, either may have happened.

    A lost answer costs a second notification at most, and brokers read an entity once however often it is named.
    """
    path, data = f"{znodes.CONFIG}/{entity}", znodes.config(configs)
    (answer,) = yield from retried([SetData(path, data)])
    if answer.error is Error.NO_NODE:
        parts = path.split("/")
        # `users/U/clients/C` may have nothing above it yet.
        above = ["/".join(parts[:depth]) for depth in range(4, len(parts))]
        made = yield from retried([*(Create(each) for each in above), Create(path, data)])
        answer = made[-1]
        if answer.error is Error.NODE_EXISTS:
            (answer,) = yield from retried([SetData(path, data)])
    if answer.ok:
        (answer,) = yield from retried([Create(znodes.CONFIG_CHANGE, znodes.config_change(entity), sequence=True)])
    return answer.ok


class Changes(NamedTuple):
    """What is new in /config/changes: the entities, and the last sequence number that was seen."""

    entities: list[str]
    seen: int


def watch_changes(seen: int, now_ms: int) -> Steps[Changes]:
    """Those that came after `seen`, each entity once. The list is watched from here on, and what is old in it is removed."""
    (listed,) = yield [Children(znodes.CONFIG_CHANGES, watch=True)]
    numbered = sorted((int(name.rpartition("_")[2]), name) for name in listed.children if name.rpartition("_")[2].isdigit())
    paths = [f"{znodes.CONFIG_CHANGES}/{name}" for _, name in numbered]
    answers = yield [Get(path) for path in paths]
    new = [(number, answer) for (number, _), answer in zip(numbered, answers, strict=True) if number > seen]
    entities = [entity for _, answer in new if answer.ok and (entity := znodes.changed_entity(answer.data)) is not None]
    old = [
        Delete(path)
        for path, answer in zip(paths, answers, strict=True)
        if answer.stat is not None and now_ms - answer.stat.created_ms > CHANGE_EXPIRATION_MS
    ]
    if old:
        yield old  # another broker may be doing the same
    return Changes(list(dict.fromkeys(entities)), max([seen, *(number for number, _ in new)]))
