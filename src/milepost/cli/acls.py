"""`milepost acls create|list|delete|why`: who may do what.

A resource is named as TYPE:NAME (`topic:visits`, `group:*`, `cluster`), a principal as `User:alice`. `list` and `delete` take the same
options as a filter: what is not given matches everything, and `delete` wants at least one. Exit code 4 when the broker refuses or has no
authorizer; `why` ends with 1 for what is denied.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from milepost.cli.options.bootstrap import bootstrap_server, connect
from milepost.cli.terminal.columns import write_columns
from milepost.cli.terminal.output import line_writer
from milepost.codec.text import counted, shown
from milepost.errors import InvalidArgument, InvalidRequest

if TYPE_CHECKING:
    from milepost.security.acl_filter import AclFilter
    from milepost.security.acls import AclBinding, Operation, ResourceType

F = TypeVar("F", bound=Callable[..., Any])
EXIT_DENIED = 1


@click.group(name="acls", short_help="Create, list and delete ACLs, and say which one decides.")
def command() -> None:
    """Who may do what: ACLs of a broker with an authorizer."""


def rule_options(command: F) -> F:
    for option in (
        click.option("--deny", is_flag=True, help="A rule that denies: it beats every one that allows."),
        click.option("--host", metavar="ADDRESS", help="From this address. Default: from everywhere."),
        click.option("--prefixed", is_flag=True, help="The resource is every one whose name begins with NAME."),
        click.option("--operation", "operations", multiple=True, metavar="OP", help="read, write, describe, all, …; repeatable."),
        click.option("--principal", metavar="TYPE:NAME", help="Whom it is about, such as User:alice; User:* is everybody."),
        click.option(
            "--resource", metavar="TYPE:NAME", help="What it is about: topic:visits, group:readers, transactional-id:t, cluster."
        ),
    ):
        command = option(command)
    return command


@command.command(name="create")
@rule_options
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per rule.")
def create(
    resource: str | None,
    principal: str | None,
    operations: tuple[str, ...],
    prefixed: bool,
    host: str | None,
    deny: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Allow --principal the --operation on --resource, or deny it; it holds from the next request on."""
    from milepost.client.acls import create_acls
    from milepost.security.acls import AclBinding, PatternType, Permission, ResourcePattern, ensure_valid

    if resource is None or principal is None or not operations:
        raise click.UsageError("a rule needs --resource, --principal and --operation")
    kind, name = parse_resource(resource)
    pattern = ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    permission = Permission.DENY if deny else Permission.ALLOW
    try:
        rules = [
            ensure_valid(AclBinding(pattern, principal, host or "*", parse_operation(each), permission)) for each in operations
        ]
    except InvalidRequest as error:
        raise InvalidArgument(str(error)) from error
    with connect(bootstrap) as cluster:
        create_acls(cluster, rules)
    write_rules(rules, as_json)


@command.command(name="list")
@rule_options
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per rule.")
def list_(
    resource: str | None,
    principal: str | None,
    operations: tuple[str, ...],
    prefixed: bool,
    host: str | None,
    deny: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """List the rules. With --resource those that concern it: of its name, of *, and of prefixes."""
    from milepost.client.acls import describe_acls

    found: list[AclBinding] = []
    with connect(bootstrap) as cluster:
        for each in filters(resource, principal, operations, prefixed, host, deny, is_match=not prefixed):
            found += describe_acls(cluster, each)
    write_rules(sorted(set(found)), as_json)


@command.command(name="delete")
@rule_options
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per rule.")
def delete(
    resource: str | None,
    principal: str | None,
    operations: tuple[str, ...],
    prefixed: bool,
    host: str | None,
    deny: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Delete the rules that match all that is given. With --resource those of exactly this name."""
    from milepost.client.acls import delete_acls

    if not (resource or principal or operations or host):
        raise click.UsageError("this would delete every rule: give --resource, --principal, --operation or --host")
    found: list[AclBinding] = []
    with connect(bootstrap) as cluster:
        for each in filters(resource, principal, operations, prefixed, host, deny, is_match=False):
            found += delete_acls(cluster, each)
    write_rules(sorted(set(found)), as_json)
    if not as_json:
        line_writer()(f"deleted {counted(len(set(found)), 'rule')}")


@command.command(name="why")
@click.option("--principal", required=True, metavar="TYPE:NAME", help="Who asks, such as User:alice.")
@click.option("--operation", required=True, metavar="OP", help="What for: read, write, describe, …")
@click.option("--resource", required=True, metavar="TYPE:NAME", help="What it is asked of: topic:visits, group:readers, cluster.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="From where. Default: 127.0.0.1")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def why(context: click.Context, principal: str, operation: str, resource: str, host: str, bootstrap: str, as_json: bool) -> None:
    """Whether --principal may do --operation on --resource, and which rule decides."""
    from milepost.client import acls

    kind, name = parse_resource(resource)
    with connect(bootstrap) as cluster:
        verdict = acls.why(cluster, principal, host, parse_operation(operation), kind, name)
    if as_json:
        line_writer()(json.dumps({"allowed": verdict.allowed, "reason": verdict.reason}))
    else:
        line_writer()(f"{'allowed' if verdict.allowed else 'denied'}: {shown(verdict.reason)}")
    if not verdict.allowed:
        context.exit(EXIT_DENIED)


def parse_resource(text: str) -> tuple[ResourceType, str]:
    from milepost.security.acls import CLUSTER_NAME, ResourceType, titled

    kind, _, name = text.partition(":")
    try:
        found = titled(ResourceType, kind)
    except InvalidRequest as error:
        raise InvalidArgument(f"--resource {text}: {error}") from error
    if found is ResourceType.CLUSTER:
        return found, name or CLUSTER_NAME
    if not name:
        raise InvalidArgument(f"--resource {text}: give a name too, such as topic:visits, or topic:* for all")
    return found, name


def parse_operation(text: str) -> Operation:
    from milepost.security.acls import Operation, titled

    try:
        return titled(Operation, text)
    except InvalidRequest as error:
        raise InvalidArgument(f"--operation {error}") from error


def filters(
    resource: str | None,
    principal: str | None,
    operations: tuple[str, ...],
    prefixed: bool,
    host: str | None,
    deny: bool,
    *,
    is_match: bool,
) -> list[AclFilter]:
    """One for each operation."""
    from milepost.security.acl_filter import AclFilter
    from milepost.security.acls import PatternType, Permission

    kind, name = (None, None) if resource is None else parse_resource(resource)
    wanted: list[Operation | None] = [parse_operation(text) for text in operations]
    pattern_type = PatternType.PREFIXED if prefixed else None if is_match or name is None else PatternType.LITERAL
    return [
        AclFilter(
            resource_type=kind,
            name=name,
            pattern_type=pattern_type,
            is_match=is_match and name is not None,
            principal=principal,
            host=host,
            operation=each,
            permission=Permission.DENY if deny else None,
        )
        for each in wanted or [None]
    ]


def write_rules(rules: list[AclBinding], as_json: bool) -> None:
    write = line_writer()
    if as_json:
        for each in rules:
            write(
                json.dumps(
                    {
                        "permission": each.permission.kafka_name,
                        "principal": each.principal,
                        "host": each.host,
                        "operation": each.operation.kafka_name,
                        "resource_type": each.pattern.resource_type.kafka_name,
                        "pattern_type": each.pattern.pattern_type.kafka_name,
                        "name": each.pattern.name,
                    }
                )
            )
    elif rules:
        heads = ("permission", "principal", "host", "operation", "resource", "pattern", "name")
        write_columns(
            write,
            heads,
            [
                (
                    each.permission.kafka_name,
                    each.principal,
                    each.host,
                    each.operation.kafka_name,
                    each.pattern.resource_type.kafka_name,
                    each.pattern.pattern_type.kafka_name,
                    each.pattern.name,
                )
                for each in rules
            ],
        )
