"""ACLs in ZooKeeper, byte for byte as Kafka's AclAuthorizer keeps them, and how brokers are notified of a change.

    /kafka-acl/Topic/visits                      `{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",
                                                 "operation":"Read","host":"*"}]}`: all rules of the literal name
    /kafka-acl-extended/prefixed/Topic/vis       the same of a prefix
    /kafka-acl-changes/acl_changes_N             `Topic:visits`: what was changed, of literal names
    /kafka-acl-extended-changes/acl_changes_N    `{"version":1,"resourceType":"TOPIC","name":"vis","patternType":"PREFIXED"}`

The rules of a name are written together, over the version that was read; without any the node is deleted. A broker that reads a list of
changes removes what is older than 15 minutes. A change that cannot be parsed may be about anything: then everything is read.

A node without content has no rules, as in Kafka. One that cannot be parsed is None: it must not be taken for no rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from milepost.cluster.zookeeper.entity_configs import CHANGE_EXPIRATION_MS
from milepost.cluster.zookeeper.operations import Children, Create, Delete, Error, Exists, Get, SetData
from milepost.cluster.zookeeper.session import TRIES, Steps, retried
from milepost.cluster.zookeeper.unreadable import understood
from milepost.errors import InvalidRequest
from milepost.security.acls import AclBinding, Operation, PatternType, Permission, ResourcePattern, ResourceType, titled

ROOTS = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
LITERAL_CHANGES = "/kafka-acl-changes"
EXTENDED_CHANGES = "/kafka-acl-extended-changes"
CHANGES = (LITERAL_CHANGES, EXTENDED_CHANGES)
CHANGE = "acl_changes_"
MADE_AT_START = (
    *CHANGES,
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *(f"{root}/{kind.kafka_name}" for root in ROOTS.values() for kind in ResourceType),
)

Found = dict[ResourcePattern, "list[AclBinding] | None"]
Seen = tuple[int, int]
"""The last change of each list."""
NOTHING_SEEN = (-1, -1)


def path_of(pattern: ResourcePattern) -> str:
    return f"{ROOTS[pattern.pattern_type]}/{pattern.resource_type.kafka_name}/{pattern.name}"


def fault_of(binding: AclBinding) -> str | None:
    """Why a name can be no znode: Kafka does not escape them."""
    name = binding.pattern.name
    if "/" in name or name in (".", "..") or not name.isprintable():
        return f"{name[:60]!r} cannot be a znode, in which ACLs of the resource would be kept"
    return None


# Content.


def node(bindings: Iterable[AclBinding]) -> bytes:
    rules = [
        {
            "principal": each.principal,
            "permissionType": each.permission.kafka_name,
            "operation": each.operation.kafka_name,
            "host": each.host,
        }
        for each in bindings
    ]
    return _json({"version": 1, "acls": rules})


def bindings_in(data: bytes, pattern: ResourcePattern) -> list[AclBinding] | None:
    return parse_node(data, pattern) if data else []


@understood
def parse_node(content: dict[str, Any], pattern: ResourcePattern) -> list[AclBinding] | None:
    return [rule_in(each, pattern) for each in content["acls"]] if content["version"] == 1 else None


def rule_in(each: dict[str, Any], pattern: ResourcePattern) -> AclBinding:
    principal, host = each["principal"], each["host"]
    if not isinstance(principal, str) or not isinstance(host, str):
        raise TypeError(f"{principal!r} and {host!r} are not both texts")
    try:
        return AclBinding(
            pattern, principal, host, titled(Operation, each["operation"]), titled(Permission, each["permissionType"])
        )
    except InvalidRequest as error:
        raise ValueError(str(error)) from error


def change(pattern: ResourcePattern) -> Create:
    kind, name, pattern_type = pattern
    if pattern_type is PatternType.LITERAL:
        return Create(f"{LITERAL_CHANGES}/{CHANGE}", f"{kind.kafka_name}:{name}".encode(), sequence=True)
    content = {"version": 1, "resourceType": kind.name, "name": name, "patternType": pattern_type.name}
    return Create(f"{EXTENDED_CHANGES}/{CHANGE}", _json(content), sequence=True)


def changed_literal(data: bytes) -> ResourcePattern | None:
    kind, colon, name = data.decode("utf-8", "replace").partition(":")
    try:
        return ResourcePattern(titled(ResourceType, kind), name) if colon else None
    except InvalidRequest:
        return None


@understood
def changed_extended(content: dict[str, Any]) -> ResourcePattern | None:
    try:
        kind, pattern_type = titled(ResourceType, content["resourceType"]), titled(PatternType, content["patternType"])
    except InvalidRequest:
        return None
    return ResourcePattern(kind, str(content["name"]), pattern_type)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


# Reading.


def make_nodes() -> Steps[None]:
    found = yield [Exists(path) for path in MADE_AT_START]
    missing = [Create(path) for path, there in zip(MADE_AT_START, found, strict=True) if not there.ok]
    if missing:
        yield from retried(missing)


def read_all() -> Steps[Found]:
    places = [(kind, pattern_type) for pattern_type in ROOTS for kind in ResourceType]
    listed = yield [Children(f"{ROOTS[pattern_type]}/{kind.kafka_name}") for kind, pattern_type in places]
    patterns = [
        ResourcePattern(kind, name, pattern_type)
        for (kind, pattern_type), answer in zip(places, listed, strict=True)
        for name in answer.children
    ]
    return (yield from read(patterns))


def read(patterns: Sequence[ResourcePattern]) -> Steps[Found]:
    """Of those that have no node: no rules. None where the node cannot be read."""
    answers = yield [Get(path_of(pattern)) for pattern in patterns]
    return {
        pattern: bindings_in(answer.data, pattern) if answer.ok else [] if answer.error is Error.NO_NODE else None
        for pattern, answer in zip(patterns, answers, strict=True)
    }


class Changes(NamedTuple):
    """What is new in the lists, each resource once; None: it may be anything."""

    patterns: list[ResourcePattern] | None
    seen: Seen


def watch_changes(seen: Seen, now_ms: int) -> Steps[Changes]:
    """Those that came after `seen`. The lists are watched from here on, and what is old in them is removed."""
    lists = yield [Children(path, watch=True) for path in CHANGES]
    numbered = [
        (place, int(digits), f"{CHANGES[place]}/{name}")
        for place, listed in enumerate(lists)
        for name in listed.children
        if (digits := name.removeprefix(CHANGE)).isdigit()
    ]
    numbered.sort()
    answers = yield [Get(path) for _, _, path in numbered]
    parse = changed_literal, changed_extended
    found: dict[ResourcePattern | None, None] = {}
    old = []
    last = list(seen)
    for (place, number, path), answer in zip(numbered, answers, strict=True):
        if number > seen[place]:
            last[place] = max(last[place], number)
            found[parse[place](answer.data) if answer.ok else None] = None
        if answer.stat is not None and now_ms - answer.stat.created_ms > CHANGE_EXPIRATION_MS:
            old.append(Delete(path))
    if old:
        yield old  # another broker may be doing the same
    patterns = None if None in found else [each for each in found if each is not None]
    return Changes(patterns, (last[0], last[1]))


# Changing.


def write(pattern: ResourcePattern, added: Sequence[AclBinding], removed: Sequence[AclBinding]) -> Steps[list[AclBinding] | None]:
    """The rules of a name with some more, or without some: what they are now. None where that is not certain, or what is there cannot
    be read; then either may have happened."""
    path, is_changed = path_of(pattern), False
    for _ in range(TRIES):
        (there,) = yield [Get(path)]
        known = bindings_in(there.data, pattern) if there.ok else []
        if known is None or (not there.ok and there.error is not Error.NO_NODE):
            return None
        wanted = [each for each in dict.fromkeys([*known, *added]) if each not in removed]
        if wanted != known or (there.ok and not wanted):
            is_changed = True
            if not wanted:
                (answer,) = yield [Delete(path, there.version)]
            elif there.ok:
                (answer,) = yield [SetData(path, node(wanted), there.version)]
            else:
                (answer,) = yield [Create(path, node(wanted))]
            if not answer.ok:
                continue  # another broker was first, or the answer was lost: look again
        if is_changed:
            (noted,) = yield from retried([change(pattern)])
            return wanted if noted.ok else None
        return wanted
    return None
