"""What a client may do, as a bit field: one bit for each ACL operation, at the operation's number.

    3 read · 4 write · 5 create · 6 delete · 7 alter · 8 describe
    9 cluster action · 10 describe configs · 11 alter configs · 12 idempotent write

Everybody may do whatever makes sense for a resource, unless an authorizer takes some of it away (`rights/special`). Who did not ask is
answered NOT_ASKED.
"""

from __future__ import annotations

NOT_ASKED = -(2**31)

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(3, 13)


def bit_field(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ON_TOPIC = bit_field(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ON_CLUSTER = bit_field(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
