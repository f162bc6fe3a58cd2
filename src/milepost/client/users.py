"""Users over the wire: who has a password for SCRAM (DescribeUserScramCredentials), and how it is set and taken away (Alter…).

A password leaves this process only as what it becomes with a salt: the broker cannot read it, and keeps even less.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import NamedTuple

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.retrying import failed
from milepost.protocol.messages import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from milepost.security.scram import ITERATIONS, MECHANISM_OF, TYPES, salted

SALT_BYTES = 20


class ScramUser(NamedTuple):
    name: str
    iterations: dict[str, int]
    """By mechanism."""


def list_users(cluster: Cluster) -> list[ScramUser]:
    response = cluster.on_controller(lambda connection: connection.ask(DescribeUserScramCredentialsRequest(users=None)))
    if response.error_code:
        raise failed("the users", response.error_code, response.error_message)
    return [
        ScramUser(each.user, {MECHANISM_OF.get(info.mechanism, "unknown"): info.iterations for info in each.credential_infos})
        for each in sorted(response.results, key=lambda result: result.user)
    ]


def set_password(cluster: Cluster, user: str, password: str, mechanisms: Iterable[str], iterations: int = ITERATIONS) -> None:
    Upsertion = AlterUserScramCredentialsRequest.Upsertion
    upsertions = []
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        secret = salted(mechanism, password.encode(), salt, iterations)
        upsertions.append(
            Upsertion(name=user, mechanism=TYPES[mechanism], iterations=iterations, salt=salt, salted_password=secret)
        )
    _alter(cluster, AlterUserScramCredentialsRequest(upsertions=upsertions))


def delete_user(cluster: Cluster, user: str) -> None:
    """With all its mechanisms; RequestFailed when there is none."""
    named = [each for each in list_users(cluster) if each.name == user]
    mechanisms = named[0].iterations if named else dict.fromkeys(TYPES)
    deletions = [AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=TYPES[each]) for each in mechanisms]
    _alter(cluster, AlterUserScramCredentialsRequest(deletions=deletions))


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    def at_controller(connection: Connection) -> None:
        for result in connection.ask(request).results:
            if result.error_code:
                raise failed(f"user {result.user}", result.error_code, result.error_message)

    cluster.on_controller(at_controller)
