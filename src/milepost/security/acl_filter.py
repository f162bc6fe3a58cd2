"""Which rules are meant, of those that are stored: Kafka's AclBindingFilter. None and ANY let everything through.

A name is compared as the pattern type says:

    LITERAL, PREFIXED   rules with this pattern type and exactly this name
    ANY                 rules with exactly this name
    MATCH               rules that concern a resource of this name: its own, those of `*`, and all prefixes of it
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.security.acls import (
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    numbered,
)

ANY = 1
MATCH = 2


class AclFilter(NamedTuple):
    resource_type: ResourceType | None = None
    name: str | None = None
    pattern_type: PatternType | None = None
    """None is ANY, or MATCH."""
    is_match: bool = False
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None

    @classmethod
    def numbered(
        cls,
        resource_type: int,
        name: str | None,
        pattern_type: int,
        principal: str | None,
        host: str | None,
        operation: int,
        permission: int,
    ) -> AclFilter:
        """From the numbers of a request; InvalidRequest for one that stands for nothing."""
        return cls(
            None if resource_type == ANY else numbered(ResourceType, resource_type, "resource type"),
            name,
            None if pattern_type in (ANY, MATCH) else numbered(PatternType, pattern_type, "pattern type"),
            pattern_type == MATCH,
            principal,
            host,
            None if operation == ANY else numbered(Operation, operation, "operation"),
            None if permission == ANY else numbered(Permission, permission, "permission"),
        )

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (None, pattern.resource_type) or self.pattern_type not in (None, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if not self.is_match:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def matches_entry(self, binding: AclBinding) -> bool:
        return (
            self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (None, binding.operation)
            and self.permission in (None, binding.permission)
        )
