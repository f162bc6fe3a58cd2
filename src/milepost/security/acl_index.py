"""All rules of a cluster, and what they say about one operation, as Kafka's StandardAuthorizer does.

A check looks at the rules of the resource's own name, of `*`, and of each prefix of the name that is as long as some prefix in use; of
each of these at those of the principal and of `User:*` alone. So it costs the same among ten rules and among ten thousand.

    a rule of DENY matches                      denied
    else a rule of ALLOW matches                allowed
    else there are rules about the resource     denied
    else                                        as `allow.everyone.if.no.acl.found` says

An address is compared as an address: `::1` and `0:0:0:0:0:0:0:1` are the same host, or a rule of DENY would depend on how it is spelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from milepost.security.acl_filter import AclFilter
from milepost.security.acls import (
    EVERYBODY,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


class Decision(NamedTuple):
    allowed: bool
    rule: AclBinding | None
    """The one that decides; None where no rule matches."""
    has_rules: bool
    """Whether any rule is about the resource."""


ByPrincipal = dict[str, list[AclBinding]]
"""The rules of one pattern."""


class Names:
    """The patterns of one type of resource."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, ByPrincipal] = {}
        self.prefixed: dict[str, ByPrincipal] = {}
        self.lengths: Counter[int] = Counter()
        """Of prefixes: how many have each."""

    def of(self, pattern: ResourcePattern) -> dict[str, ByPrincipal]:
        return self.literal if pattern.pattern_type is LITERAL else self.prefixed

    def prefixes(self, name: str) -> list[str]:
        """The beginnings of a name that are as long as a prefix in use."""
        size = len(name)
        return [name[:length] for length in self.lengths if length <= size]


class AclIndex:
    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self._names = {each: Names() for each in ResourceType}
        self._all: dict[AclBinding, None] = {}
        self._of_principal: dict[str, dict[AclBinding, None]] = {}
        self.generation = 0
        """Another one after every change."""
        for each in bindings:
            self.add(each)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(list(self._all))

    def __contains__(self, binding: AclBinding) -> bool:
        return binding in self._all

    # Changing.

    def add(self, binding: AclBinding) -> None:
        if binding in self._all:
            return
        pattern = binding.pattern
        names = self._names[pattern.resource_type]
        rules = names.of(pattern)
        if pattern.name not in rules:
            rules[pattern.name] = {}
            if pattern.pattern_type is PREFIXED:
                names.lengths[len(pattern.name)] += 1
        rules[pattern.name].setdefault(binding.principal, []).append(binding)
        self._all[binding] = self._of_principal.setdefault(binding.principal, {})[binding] = None
        self.generation += 1

    def remove(self, binding: AclBinding) -> None:
        if binding not in self._all:
            return
        pattern = binding.pattern
        names = self._names[pattern.resource_type]
        rules = names.of(pattern)[pattern.name]
        rules[binding.principal].remove(binding)
        if not rules[binding.principal]:
            del rules[binding.principal]
        if not rules:
            del names.of(pattern)[pattern.name]
            if pattern.pattern_type is PREFIXED:
                names.lengths[len(pattern.name)] -= 1
                names.lengths += Counter()  # without what is at 0
        del self._all[binding], self._of_principal[binding.principal][binding]
        if not self._of_principal[binding.principal]:
            del self._of_principal[binding.principal]
        self.generation += 1

    def replace(self, pattern: ResourcePattern, bindings: Iterable[AclBinding]) -> None:
        """All rules of a pattern at once."""
        wanted = dict.fromkeys(bindings)
        for each in self.of(pattern):
            if each not in wanted:
                self.remove(each)
        for each in wanted:
            self.add(each)

    # Looking.

    def of(self, pattern: ResourcePattern) -> list[AclBinding]:
        rules = self._names[pattern.resource_type].of(pattern).get(pattern.name, {})
        return [each for named in rules.values() for each in named]

    def patterns(self) -> list[ResourcePattern]:
        return [
            ResourcePattern(kind, name, pattern_type)
            for kind, names in self._names.items()
            for pattern_type, rules in ((LITERAL, names.literal), (PREFIXED, names.prefixed))
            for name in rules
        ]

    def candidates(self, wanted: AclFilter) -> list[ResourcePattern]:
        """The patterns that a filter may mean: few where it has a name, else all."""
        name = wanted.name
        if name is None:
            return self.patterns()
        found = []
        for kind in ResourceType if wanted.resource_type is None else (wanted.resource_type,):
            names = self._names[kind]
            literals, prefixes = [name], [name]
            if wanted.is_match:
                literals += [WILDCARD]
                prefixes += names.prefixes(name)
            found += [ResourcePattern(kind, each) for each in dict.fromkeys(literals) if each in names.literal]
            found += [ResourcePattern(kind, each, PREFIXED) for each in dict.fromkeys(prefixes) if each in names.prefixed]
        return found

    def decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> Decision:
        """`allowed` is False where no rule matches: what that means is for the authorizer to say."""
        names = self._names[kind]
        patterns = [names.literal.get(name), names.literal.get(WILDCARD), *map(names.prefixed.get, names.prefixes(name))]
        found: AclBinding | None = None
        has_rules = False
        for rules in patterns:
            if rules is None:
                continue
            has_rules = True
            for who in (principal, EVERYBODY):
                for each in rules.get(who, ()):
                    if not each.covers(operation) or (each.host != WILDCARD and canonical(each.host) != canonical(host)):
                        continue
                    if each.permission is Permission.DENY:
                        return Decision(False, each, True)
                    found = found or each
        return Decision(found is not None, found, has_rules)

    def decide_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> Decision:
        """Whether there may be a resource of a type on which the operation is allowed (KIP-679): a rule of ALLOW that no rule of DENY
        covers as a whole."""
        address = canonical(host)
        mine = [
            each
            for who in dict.fromkeys((principal, EVERYBODY))
            for each in self._of_principal.get(who, ())
            if each.pattern.resource_type is kind
            and each.operation in (Operation.ALL, operation)
            and (each.host == WILDCARD or canonical(each.host) == address)
        ]
        denied = {each.pattern: each for each in mine if each.permission is Permission.DENY}
        everything = denied.get(ResourcePattern(kind, WILDCARD, LITERAL))
        if everything is not None:
            return Decision(False, everything, True)
        prefixes = {len(each.name) for each in denied if each.pattern_type is PREFIXED}
        for each in mine:
            if each.permission is Permission.ALLOW and not is_covered(each.pattern, denied, prefixes):
                return Decision(True, each, True)
        return Decision(False, None, has_rules=False)  # there may be a resource that no rule is about


def is_covered(pattern: ResourcePattern, denied: Mapping[ResourcePattern, AclBinding], prefixes: Iterable[int]) -> bool:
    """Whether all that a pattern means is denied, by itself or by a prefix of one of these lengths."""
    kind, name, _ = pattern
    if pattern == (kind, WILDCARD, LITERAL):
        return False
    return pattern in denied or any(
        ResourcePattern(kind, name[:length], PREFIXED) in denied for length in prefixes if length <= len(name)
    )


@lru_cache(maxsize=4096)
def canonical(host: str) -> str:
    """One spelling of an address; what is none stays as it is."""
    try:
        address = ip_address(host.strip("/[]"))
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
