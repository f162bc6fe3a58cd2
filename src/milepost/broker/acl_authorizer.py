"""The authorizer of ACLs: `authorizer.class.name` of Kafka's AclAuthorizer or StandardAuthorizer, which decide alike.

`super.users` may do everything, and so may a connection that has proven to be a broker's of this cluster (`replica/broker_proof`). For
everybody else the rules decide (`security/acl_index`), and where there are none about a resource `allow.everyone.if.no.acl.found`, which
is false. Until the rules were read nobody else may do anything.

Decisions are remembered until a rule changes. What is denied is counted, and logged by `milepost.authorizer`: a line a second for a
principal and its address, which says how many were left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from milepost.broker.authorizer import Access, Requester
from milepost.codec.text import shown
from milepost.security.acl_index import AclIndex, Decision
from milepost.security.principal import BROKER

if TYPE_CHECKING:
    from milepost.config.broker import BrokerConfig

logger = logging.getLogger("milepost.authorizer")

WHY = "Authorization failed."
"""All that a client learns, as from Kafka."""
MOST_DECISIONS = 20_000
LONGEST_NAME = 249
"""Of a topic. Other names of strangers are not remembered."""
QUIET_SECONDS = 1.0
MOST_PRINCIPALS = 1000
SHOWN = 100


class AclAuthorizer:
    allows_everything = False

    def __init__(
        self,
        super_users: frozenset[str] = frozenset(),
        *,
        allows_without_rules: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self.super_users = super_users
        self.allows_without_rules = allows_without_rules
        self.acls: AclIndex | None = None
        """None until they were read."""
        self.checks = 0
        self._decisions: dict[tuple[str, str, Access], str | None] = {}
        self._decided_at = -1
        self.denials = Denials(monotonic)

    @property
    def generation(self) -> int:
        return -1 if self.acls is None else self.acls.generation

    def denies(self, access: Access, requester: Requester) -> str | None:
        self.checks += 1
        if requester.principal.type == BROKER:
            return None
        principal = str(requester.principal)
        if principal in self.super_users:
            return None
        if self._decided_at != self.generation:
            self._decisions.clear()
            self._decided_at = self.generation
        key = principal, requester.client_host, access
        try:
            return self._decisions[key]
        except KeyError:
            why = None if self._allows(self._decide(access, principal, requester.client_host)) else WHY
        if len(access.name) <= LONGEST_NAME and self.acls is not None:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = why
        return why

    def _allows(self, decision: Decision | None) -> bool:
        if decision is None:
            return False
        return decision.allowed or (self.allows_without_rules and not decision.has_rules)

    def _decide(self, access: Access, principal: str, host: str) -> Decision | None:
        if self.acls is None:
            return None
        if access.is_any:
            return self.acls.decide_any(principal, host, access.operation, access.resource_type)
        return self.acls.decide(principal, host, access.operation, access.resource_type, access.name)

    def note_denial(self, access: Access, requester: Requester) -> None:
        self.denials.note(access, str(requester.principal), requester.client_host.removeprefix("/"))


class Denials:
    """What was denied to somebody who asked for it by name; what is left out of a list is not."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic):
        self.count = 0
        self._monotonic = monotonic
        # By principal and address: when it was last told of, and how often it was denied something since.
        self._told: dict[tuple[str, str], tuple[float, int]] = {}

    def note(self, access: Access, principal: str, host: str) -> None:
        self.count += 1
        now = self._monotonic()
        who = principal, host
        since, untold = self._told.get(who, (now - QUIET_SECONDS, 0))
        if now - since < QUIET_SECONDS:
            self._told[who] = since, untold + 1
            return
        if len(self._told) >= MOST_PRINCIPALS:
            self._told.clear()
        self._told[who] = now, 0
        kind = access.resource_type.kafka_name
        more = f" (and {untold} more of this principal)" if untold else ""
        logger.warning(
            "denied %s on %s:%s to %s from %s%s",
            access.operation.name,
            kind,
            "any" if access.is_any else shown(access.name[:SHOWN]),
            shown(principal[:SHOWN]),
            host,
            more,
        )


def configured_authorizer(config: BrokerConfig) -> AclAuthorizer:
    named = (each.strip() for each in (config.super_users or "").split(";"))
    return AclAuthorizer(
        frozenset(each for each in named if each), allows_without_rules=bool(config.allow_everyone_if_no_acl_found)
    )
