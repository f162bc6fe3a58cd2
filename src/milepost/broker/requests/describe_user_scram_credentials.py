"""DescribeUserScramCredentials (key 50): which mechanisms users have a password for, and with how many iterations; never more."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from milepost.security.scram import TYPES

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

Result = DescribeUserScramCredentialsResponse.Result


def handle(request: DescribeUserScramCredentialsRequest, context: Context) -> Work[DescribeUserScramCredentialsResponse]:
    """Without names, or with an empty list of them: of all users."""
    broker = context.broker
    yield from broker.topology.scram_users.refreshing()
    known = broker.cluster.scram_users
    wanted = Counter(user.name for user in request.users or ()) or Counter(list(known))
    results = []
    for user, times in wanted.items():
        yield
        if times > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            results.append(Result(user=user, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text))
        elif user not in known:
            text = f"Attempt to describe a user credential that does not exist: {user}"
            results.append(Result(user=user, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text))
        else:
            infos = [
                Result.CredentialInfo(mechanism=TYPES[name], iterations=each.iterations) for name, each in known[user].items()
            ]
            results.append(Result(user=user, credential_infos=infos))
    return DescribeUserScramCredentialsResponse(results=results)
