"""AlterUserScramCredentials (key 51): set the passwords of users, or take them away.

A client sends what its password becomes with salt and iterations; what is kept of that cannot be used to log in. What is wrong with one
mechanism of a user refuses the user, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from milepost.security.scram import ITERATIONS, MECHANISM_OF, MOST_ITERATIONS, ScramCredential, credential_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

Result = AlterUserScramCredentialsResponse.Result
Upsertion = AlterUserScramCredentialsRequest.Upsertion
Known = dict[str, dict[str, ScramCredential]]
Refusals = dict[str, tuple[int, str]]

MOST_USERS = 100_000
MOST_NAME_BYTES = 1024
MOST_SALT_BYTES = 1024


def handle(request: AlterUserScramCredentialsRequest, context: Context) -> Work[AlterUserScramCredentialsResponse]:
    context.goes_on = True
    return context.broker.topology.topics.in_turn(altering(request, context.broker))


def altering(request: AlterUserScramCredentialsRequest, broker: Parts) -> Work[AlterUserScramCredentialsResponse]:
    yield from broker.topology.scram_users.refreshing()
    known = broker.cluster.scram_users
    wanted: dict[str, dict[str, ScramCredential | None]] = {}
    refused: Refusals = {}
    for deletion in request.deletions:
        yield
        mechanism = MECHANISM_OF.get(deletion.mechanism)
        note(wanted, refused, deletion.name, mechanism, None, fault_of_deletion(deletion.name, mechanism, known))
    for upsertion in request.upsertions:
        yield
        mechanism = MECHANISM_OF.get(upsertion.mechanism)
        fault = fault_of(upsertion, mechanism)
        made = None if fault is not None or mechanism is None else credential(upsertion, mechanism)
        note(wanted, refused, upsertion.name, mechanism, made, fault)
    changes = {user: each for user, each in wanted.items() if user not in refused}
    if len(known) + len(changes.keys() - known.keys()) > MOST_USERS:
        text = f"{MOST_USERS} users are the most; take others away first"
        refused |= dict.fromkeys(changes.keys() - known.keys(), (ErrorCode.POLICY_VIOLATION, text))
        changes = {user: each for user, each in changes.items() if user in known}
    failures: Mapping[str, MilepostError] = yield from broker.topology.scram_users.altering(changes)
    results = []
    for user in wanted:
        code, text = refused.get(user, (0, ""))
        if user in failures:
            code, text = failures[user].code, str(failures[user])
        results.append(Result(user=user, error_code=code, error_message=text or None))
    return AlterUserScramCredentialsResponse(results=results)


def note(
    wanted: dict[str, dict[str, ScramCredential | None]],
    refused: Refusals,
    user: str,
    mechanism: str | None,
    made: ScramCredential | None,
    fault: tuple[int, str] | None,
) -> None:
    """A user is in the answer once, however often it is named."""
    of_user = wanted.setdefault(user, {})
    if fault is None and mechanism in of_user:
        fault = ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    if fault is not None:
        refused.setdefault(user, fault)
    elif mechanism is not None:
        of_user[mechanism] = made


def fault_of_deletion(user: str, mechanism: str | None, known: Known) -> tuple[int, str] | None:
    if fault := fault_of_name(user, mechanism):
        return fault
    if mechanism not in known.get(user, {}):
        return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    return None


def fault_of_name(user: str, mechanism: str | None) -> tuple[int, str] | None:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if len(user.encode()) > MOST_NAME_BYTES:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a name has at most {MOST_NAME_BYTES} bytes"
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def fault_of(upsertion: Upsertion, mechanism: str | None) -> tuple[int, str] | None:
    if fault := fault_of_name(upsertion.name, mechanism):
        return fault
    if upsertion.iterations < ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > MOST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not 0 < len(upsertion.salt) <= MOST_SALT_BYTES or not upsertion.salted_password:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a salt has 1 to {MOST_SALT_BYTES} bytes, and a salted password is not empty"
    return None


def credential(upsertion: Upsertion, mechanism: str) -> ScramCredential:
    return credential_of(mechanism, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations)
