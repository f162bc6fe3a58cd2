"""`sasl.jaas.config` as Kafka's users write it: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="it's a \\"secret\\"" user_alice="..." user_bob='...';
"""

from __future__ import annotations

import re

from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

FLAGS = ("required", "requisite", "sufficient", "optional")
TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s="';]+)|([=;]))""", re.DOTALL)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
MOST_CHARACTERS = 1 << 20
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER = "user_"


@frozen_dataclass
class JaasConfig:
    module: str
    options: dict[str, str]

    @property
    def users(self) -> dict[str, str]:
        """Passwords by name."""
        return {name.removeprefix(USER): value for name, value in self.options.items() if name.startswith(USER)}


def parse_jaas(name: str, text: str) -> JaasConfig:
    """`name`: of the property. No value appears in an error: some are passwords."""
    if len(text) > MOST_CHARACTERS:
        raise fault(name, f"it has {len(text)} characters; {MOST_CHARACTERS} are the most")
    tokens = tokens_of(name, text)
    if len(tokens) < 3 or tokens[1][1] not in FLAGS or not tokens[0][0] or tokens[-1] != (False, ";"):
        raise fault(name, "it is not of the form MODULE required OPTION=\"VALUE\" ... ;")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    while rest:
        if len(rest) < 3 or not rest[0][0] or rest[1] != (False, "=") or not rest[2][0]:
            raise fault(name, f'option {len(options) + 1} is not of the form NAME="VALUE", or the ; at the end is not the only one')
        if rest[0][1] in options:
            raise fault(name, f"option {rest[0][1]} is given twice")
        options[rest[0][1]] = rest[2][1]
        rest = rest[3:]
    return JaasConfig(tokens[0][1], options)


def tokens_of(name: str, text: str) -> list[tuple[bool, str]]:
    """Words, with or without quotes, and the signs = and ; between them."""
    tokens: list[tuple[bool, str]] = []
    at = 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            raise fault(name, f"at character {at + 1} a quote begins that does not end")
        double, single, word, sign = found.groups()
        if sign is not None:
            tokens.append((False, sign))
        elif word is not None:
            tokens.append((True, word))
        else:
            quoted = double if double is not None else single
            tokens.append((True, ESCAPE.sub(lambda escape: ESCAPES.get(escape[1], escape[1]), quoted)))
        at = found.end()
    return tokens


def fault(name: str, reason: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"{name}: {reason}.", name)
