"""Quotas of clients as the cluster stores them: for whom, which, and how much.

An *entity* says for whom: {"user": "alice"}, {"user": "alice", "client-id": "etl"}, {"client-id": "etl"} or {"ip": "10.0.0.7"};
None in the place of a name stands for everybody who has no quota under that name.

    key                        for                 value above 0
    producer_byte_rate         user, client-id     whole, bytes a second
    consumer_byte_rate         user, client-id     whole, bytes a second
    request_percentage         user, client-id     any, percent of one handler's time
    controller_mutation_rate   user, client-id     any, partitions created or deleted a second
    connection_creation_rate   ip                  whole, connections a second

They are stored and described. Nothing is slowed down by them yet.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from typing import Any

from milepost.broker.slices import Work
from milepost.errors import InvalidRequest, UnsupportedVersion

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (USER, CLIENT_ID, IP)

CLIENT_KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_KEYS = ("connection_creation_rate",)
WHOLE = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")

EXACT, DEFAULT, ANY = range(3)

Entity = dict[str, str | None]
Stored = list[dict[str, Any]]


def entity_of(parts: list[tuple[str, str | None]]) -> Entity:
    """The entity that a request names; one that cannot have quotas is refused."""
    if not parts:
        raise InvalidRequest("the entity is empty: name a user, a client-id or an ip")
    entity = dict(sorted(parts, key=lambda part: part[0]))
    for kind, name in parts:
        if kind not in TYPES:
            raise InvalidRequest(f"entity type {kind[:60]!r} is none of {', '.join(TYPES)}")
        if name == "":
            raise InvalidRequest(f"the name of a {kind} is empty; the default is null")
    if len(entity) != len(parts):
        raise InvalidRequest("an entity type is in the entity more than once")
    if IP in entity and len(entity) > 1:
        raise InvalidRequest("an ip has quotas of its own: it cannot be combined with a user or a client-id")
    if entity.get(IP) is not None:
        ensure_address(entity[IP] or "")
    return entity


def ensure_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise InvalidRequest(f"{text[:60]!r} is no IP address") from None


def ensure_quota(entity: Entity, key: str, value: float) -> None:
    allowed = IP_KEYS if IP in entity else CLIENT_KEYS
    if key not in allowed:
        raise InvalidRequest(f"{key[:60]!r} is no quota of {' and '.join(entity)}: give one of {', '.join(allowed)}")
    if not math.isfinite(value) or value <= 0:
        raise InvalidRequest(f"{key} = {value}: give a number above 0")
    if key in WHOLE and value != int(value):
        raise InvalidRequest(f"{key} = {value}: give a whole number")


def with_changes(stored: Mapping[str, float], changes: Mapping[str, float | None]) -> dict[str, float]:
    """The quotas of an entity after some of them changed; None takes one away."""
    values = {key: value for key, value in {**stored, **changes}.items() if value is not None}
    return dict(sorted(values.items()))


def matching(stored: Stored, components: list[tuple[str, int, str | None]], strict: bool) -> Work[Stored]:
    """The entries that have all components; `strict`: and nothing else."""
    yield from ensuring_filter(components)
    found = []
    for entry in stored:
        if (not strict or len(entry["entity"]) == len(components)) and all(
            has(entry["entity"], kind, match_type, name) for kind, match_type, name in components
        ):
            found.append(entry)
        yield
    return found


def has(entity: Entity, kind: str, match_type: int, name: str | None) -> bool:
    return kind in entity and (match_type == ANY or entity[kind] == name)


def ensuring_filter(components: list[tuple[str, int, str | None]]) -> Work[None]:
    kinds = [kind for kind, _, _ in components]
    for kind, match_type, name in components:
        if not kind:
            raise InvalidRequest("the entity type is empty")
        if kind not in TYPES:
            raise UnsupportedVersion(f"entity type {kind[:60]!r} is none of {', '.join(TYPES)}")
        if match_type not in (EXACT, DEFAULT, ANY):
            raise InvalidRequest(f"match type {match_type} is none of exact {EXACT}, default {DEFAULT}, any {ANY}")
        if (match_type == EXACT) != (name is not None):
            raise InvalidRequest(f"match type {match_type} with the name {name!r}: {EXACT} needs one, the others have none")
        yield
    if len(set(kinds)) != len(kinds):
        raise InvalidRequest("an entity type is in the filter more than once")
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequest("an ip has quotas of its own: it cannot be asked for together with a user or a client-id")
