"""Names in certificates as Java writes them (RFC 2253), and the rules that make users of them.

`ssl.principal.mapping.rules` are tried one after the other, and the first that fits decides:

    RULE:PATTERN/REPLACEMENT/[LU]    a regular expression for the whole name; `$1` is what its first group found; L and U change the case
    DEFAULT                          the name as it is

A name that no rule fits has no user: the connection is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from milepost.errors import AuthenticationFailed, InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

Name = tuple[tuple[tuple[str, str], ...], ...]
"""As `ssl.SSLSocket.getpeercert` has it: relative names of pairs, in the order of the certificate."""

KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
OIDS = {"emailAddress": ("1.2.840.113549.1.9.1", 0x16), "serialNumber": ("2.5.4.5", 0x13), "title": ("2.5.4.12", 0x0C)}
"""What RFC 2253 has no keyword for stands there by its number, and its value as DER in hexadecimal; with the tag of its type."""
ESCAPED = re.compile(r'([,+"\\<>;])')
RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
GROUP = re.compile(r"\$(\d)")


def distinguished_name(name: Name) -> str:
    """From the last part of the certificate's to the first."""
    return ",".join("+".join(attribute(*pair) for pair in relative) for relative in reversed(name))


def attribute(name: str, value: str) -> str:
    if name in OIDS:
        oid, tag = OIDS[name]
        octets = value.encode()
        return f"{oid}=#{bytes((tag, len(octets) & 0x7F)).hex()}{octets.hex()}"
    escaped = ESCAPED.sub(r"\\\1", value)
    if escaped[:1] in (" ", "#"):
        escaped = "\\" + escaped
    if len(value) > 1 and value.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return f"{KEYWORDS.get(name, name)}={escaped}"


@frozen_dataclass
class Rule:
    """None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def user(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        user = GROUP.sub(lambda group: found.group(int(group[1])) or "", self.replacement)
        return {"L": user.lower(), "U": user.upper()}.get(self.case, user)


def parse_rules(text: str) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    at = 0
    while at < len(text.rstrip()):
        found = RULE.match(text, at)
        if found is None:
            raise fault(f"{text[at : at + 60]!r} is no rule: give RULE:PATTERN/REPLACEMENT/, with L or U behind it, or DEFAULT")
        default, pattern, replacement, case = found.groups()
        try:
            rules.append(Rule(None if default else re.compile(pattern), replacement or "", case or ""))
        except re.error as error:
            raise fault(f"{pattern!r} is no regular expression: {error}") from None
        at = found.end()
    return tuple(rules)


def fault(reason: str) -> InvalidConfiguration:
    name = "ssl.principal.mapping.rules"
    return InvalidConfiguration(f"{name}: {reason}.", name)


def user_of(name: str, rules: Iterable[Rule]) -> str:
    for rule in rules:
        user = rule.user(name)
        if user is not None:
            return user
    raise AuthenticationFailed(f"no rule of ssl.principal.mapping.rules fits {name!r}")
