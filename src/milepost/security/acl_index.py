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


class ByPrincipal(dict[str, list[AclBinding]]):
    """The rules of one pattern."""


class AclIndex:
    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self._patterns: dict[ResourcePattern, ByPrincipal] = {}
        self._lengths: dict[ResourceType, Counter[int]] = {each: Counter() for each in ResourceType}
        """Of prefixes: how many patterns have each."""
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
        self._all[binding] = self._of_principal.setdefault(binding.principal, {})[binding] = None
        rules = self._patterns.get(binding.pattern)
        if rules is None:
            rules = self._patterns[binding.pattern] = ByPrincipal()
            if binding.pattern.pattern_type is PREFIXED:
                self._lengths[binding.pattern.resource_type][len(binding.pattern.name)] += 1
        rules.setdefault(binding.principal, []).append(binding)
        self.generation += 1

    def remove(self, binding: AclBinding) -> None:
        if binding not in self._all:
            return
        del self._all[binding], self._of_principal[binding.principal][binding]
        if not self._of_principal[binding.principal]:
            del self._of_principal[binding.principal]
        pattern = binding.pattern
        rules = self._patterns[pattern]
        rules[binding.principal].remove(binding)
        if not rules[binding.principal]:
            del rules[binding.principal]
        if not rules:
            del self._patterns[pattern]
            if pattern.pattern_type is PREFIXED:
                lengths = self._lengths[pattern.resource_type]
                lengths[len(pattern.name)] -= 1
                if not lengths[len(pattern.name)]:
                    del lengths[len(pattern.name)]
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
        return [each for rules in self._patterns.get(pattern, ByPrincipal()).values() for each in rules]

    def patterns(self) -> list[ResourcePattern]:
        return list(self._patterns)

    def candidates(self, wanted: AclFilter) -> list[ResourcePattern]:
        """The patterns that a filter may mean: few where it has a name, else all."""
        if wanted.name is None:
            return list(self._patterns)
        types = ResourceType if wanted.resource_type is None else (wanted.resource_type,)
        found = []
        for kind in types:
            found += [ResourcePattern(kind, wanted.name, each) for each in PatternType]
            if wanted.is_match:
                found += self._matching(kind, wanted.name)
        return [each for each in dict.fromkeys(found) if each in self._patterns]

    def _matching(self, kind: ResourceType, name: str) -> list[ResourcePattern]:
        """Patterns that concern a resource, whether there are rules for them or not."""
        found = [ResourcePattern(kind, name, LITERAL), ResourcePattern(kind, WILDCARD, LITERAL)]
        size = len(name)
        return found + [ResourcePattern(kind, name[:length], PREFIXED) for length in self._lengths[kind] if length <= size]

    def decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> Decision:
        """`allowed` is False where no rule matches: what that means is for the authorizer to say."""
        found: AclBinding | None = None
        has_rules = False
        for pattern in self._matching(kind, name):
            rules = self._patterns.get(pattern)
            if rules is None:
                continue
            has_rules = True
            for each in (*rules.get(principal, ()), *rules.get(EVERYBODY, ())):
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
        return Decision(False, None, bool(mine))


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
