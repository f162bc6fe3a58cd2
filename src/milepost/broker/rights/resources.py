"""Which access stands for what: short words for `table` and `special`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost.broker.authorizer import Access
from milepost.broker.configs.config_resources import GROUP, TOPIC
from milepost.broker.rights.guards import Accesses
from milepost.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from milepost.broker.context import Context


def on_cluster(operation: Operation) -> Access:
    return Access(operation, ResourceType.CLUSTER)


def on_topic(operation: Operation, name: str) -> Access:
    return Access(operation, ResourceType.TOPIC, name)


def on_group(operation: Operation, name: str) -> Access:
    return Access(operation, ResourceType.GROUP, name)


def on_transaction(operation: Operation, name: str) -> Access:
    return Access(operation, ResourceType.TRANSACTIONAL_ID, name)


# Of a request, and of an element of a list in it.

OfRequest = Callable[[Any], Accesses]
OfElement = Callable[[Any, "Context"], Accesses]


def cluster(*operations: Operation) -> Callable[..., Accesses]:
    accesses = tuple(map(on_cluster, operations))
    return lambda *named: accesses


def group(operation: Operation, field: str = "group_id") -> OfRequest:
    return lambda request: (on_group(operation, getattr(request, field)),)


def transaction(operation: Operation) -> OfRequest:
    return lambda request: (on_transaction(operation, request.transactional_id),)


def topic(operation: Operation, field: str = "name") -> OfElement:
    return lambda element, context: (on_topic(operation, getattr(element, field)),)


def topic_by_id(operation: Operation) -> OfElement:
    """By its name, or by its id where it has none; one that is not known is not asked for."""

    def accesses(element: Any, context: Context) -> Accesses:
        name = element.name or context.broker.cluster.name_of(element.topic_id)
        return (on_topic(operation, name),) if name else ()

    return accesses


def named_topic(operation: Operation) -> OfElement:
    return lambda name, context: (on_topic(operation, name),)


def named_group(operation: Operation) -> OfElement:
    return lambda name, context: (on_group(operation, name),)


def named_transaction(operation: Operation) -> OfElement:
    return lambda name, context: (on_transaction(operation, name),)


def configured(operation: Operation) -> OfElement:
    """Settings of topics and groups are theirs, all others are the cluster's."""

    def accesses(resource: Any, context: Context) -> Accesses:
        if resource.resource_type == TOPIC:
            return (on_topic(operation, resource.resource_name),)
        if resource.resource_type == GROUP:
            return (on_group(operation, resource.resource_name),)
        return (on_cluster(operation),)

    return accesses


def produced_in(request: Any) -> Accesses:
    return () if request.transactional_id is None else (on_transaction(Operation.WRITE, request.transactional_id),)


def producer(request: Any) -> Accesses:
    """Who may write to any topic may do so idempotently (KIP-679)."""
    if request.transactional_id is None:
        any_topic = Access(Operation.WRITE, ResourceType.TOPIC, "", is_any=True)
        return any_topic, on_cluster(Operation.IDEMPOTENT_WRITE)
    return (on_transaction(Operation.WRITE, request.transactional_id),)
