"""ACLs over the wire: which there are, new ones, fewer; and what they say of one operation, decided here as a broker decides it.

What a broker does besides its ACLs is in its settings: `super.users`, and `allow.everyone.if.no.acl.found`. Apache Kafka keeps the value of
the first to itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.client.configs import Resource, ResourceType, describe_configs
from milepost.client.retrying import failed
from milepost.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from milepost.security.acl_filter import ANY, MATCH, AclFilter
from milepost.security.acl_index import AclIndex
from milepost.security.acls import AclBinding, from_row

if TYPE_CHECKING:
    from milepost.client.cluster import Cluster
    from milepost.client.connection import Connection
    from milepost.security import acls as rules

SUPER_USERS, OPEN = "super.users", "allow.everyone.if.no.acl.found"


def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[AclBinding]:
    """Those that a filter lets through, in order."""

    def work(connection: Connection) -> list[AclBinding]:
        response: DescribeAclsResponse = connection.ask(DescribeAclsRequest(**asked(wanted)))
        if response.error_code:
            raise failed("ACLs", response.error_code, response.error_message)
        return sorted(
            from_row(
                (
                    each.resource_type,
                    each.resource_name,
                    each.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
            )
            for each in response.resources
            for acl in each.acls
        )

    return cluster.on_controller(work)


def create_acls(cluster: Cluster, bindings: Iterable[AclBinding]) -> None:
    """The first refusal is raised, after all were asked for."""
    wanted = list(bindings)

    def work(connection: Connection) -> None:
        creations = [creation(each) for each in wanted]
        response: CreateAclsResponse = connection.ask(CreateAclsRequest(creations=creations))
        for binding, result in zip(wanted, response.results, strict=True):
            if result.error_code:
                raise failed(str(binding), result.error_code, result.error_message)

    cluster.on_controller(work)


def creation(binding: AclBinding) -> CreateAclsRequest.Creation:
    kind, name, pattern_type = binding.pattern
    return CreateAclsRequest.Creation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def delete_acls(cluster: Cluster, wanted: AclFilter) -> list[AclBinding]:
    """Those that were deleted, in order."""

    def work(connection: Connection) -> list[AclBinding]:
        response: DeleteAclsResponse = connection.ask(DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**asked(wanted))]))
        deleted = []
        for result in response.filter_results:
            if result.error_code:
                raise failed("ACLs", result.error_code, result.error_message)
            for each in result.matching_acls:
                binding = from_row(
                    (
                        each.resource_type,
                        each.resource_name,
                        each.pattern_type,
                        each.principal,
                        each.host,
                        each.operation,
                        each.permission_type,
                    )
                )
                if each.error_code:
                    raise failed(str(binding), each.error_code, each.error_message)
                deleted.append(binding)
        return sorted(deleted)

    return cluster.on_controller(work)


def asked(wanted: AclFilter) -> dict[str, Any]:
    """The fields of a filter."""
    return {
        "resource_type_filter": wanted.resource_type or ANY,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": MATCH if wanted.is_match else wanted.pattern_type or ANY,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation or ANY,
        "permission_type": wanted.permission or ANY,
    }


class Verdict(NamedTuple):
    allowed: bool
    reason: str


def why(cluster: Cluster, principal: str, host: str, operation: rules.Operation, kind: rules.ResourceType, name: str) -> Verdict:
    """What a broker with an authorizer answers, and which rule decides."""
    settings = broker_settings(cluster)
    super_users = settings.get(SUPER_USERS)
    if principal in [each.strip() for each in (super_users or "").split(";")]:
        return Verdict(True, f"{principal} is among {SUPER_USERS}")
    matching = AclFilter(resource_type=kind, name=name, is_match=True)
    decision = AclIndex(describe_acls(cluster, matching)).decide(principal, host, operation, kind, name)
    if decision.rule is not None:
        return Verdict(decision.allowed, f"the rule {decision.rule}")
    if decision.has_rules:
        return Verdict(False, f"no rule about {kind.kafka_name} {name} is for this")
    is_open = settings.get(OPEN) == "true"
    return Verdict(is_open, f"there is no rule about {kind.kafka_name} {name}, and {OPEN} is {'true' if is_open else 'false'}")


def broker_settings(cluster: Cluster) -> dict[str, str | None]:
    """Of one broker: an authorizer is set up alike in all of them."""
    nodes = cluster.refresh([]).nodes
    entries = describe_configs(cluster, Resource(ResourceType.BROKER, str(min(nodes))), (SUPER_USERS, OPEN))
    return {entry.name: entry.value for entry in entries}
