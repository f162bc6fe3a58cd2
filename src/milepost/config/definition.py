"""One property: its Kafka name, its type, what it may be, its default, and how a value is read.

    letter  type     read from text                          a Python value that is taken as it is
    B       BOOLEAN  true or false, any case                 bool
    I       INT      decimal, signed 32 bits                 int (not bool)
    L       LONG     decimal, signed 64 bits                 int (not bool)
    D       DOUBLE   decimal, finite                         float or int
    S       STRING   the text, without spaces at its ends    str
    LIST    LIST     parts between commas, spaces cut,       tuple, list, set, frozenset of str
                     a repeated part counts once

A value that does not fit raises InvalidConfiguration with the name, the value and what is allowed.
Kafka reads `1e3` or `0x10` as no whole number, and so does this; unlike Kafka, NaN and infinity are refused
(Kafka's range checks let NaN through).

A *configuration* is a frozen, slotted dataclass whose fields are made by `declare`. The field `segment_bytes`
is the property `segment.bytes`: dots and underscores are the only difference, in both directions.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

class Secret:
    """Text that does not show itself."""

    __slots__ = ("value",)

    def __init__(self, value: str):
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class Given(NamedTuple):
    """A property that keeps its value to itself."""

    name: str
    value: Secret


Value = bool | int | float | str | tuple[str, ...] | Secret | None

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class Type(enum.Enum):
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"


B, I, L, D, S, LIST = Type  # noqa: E741  the letters of Kafka's tables


@frozen_dataclass
class Property:
    """`choices` and `pattern` hold for a string, or for every part of a list. `also` names values allowed outside the range."""

    name: str
    type: Type
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None
    also: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    pattern: str = ""
    pattern_doc: str = ""
    nullable: bool = False
    broker: tuple[str, ...] = ()

    def parse(self, value: object) -> Value:
        """The value this property takes when `value` is given; text and Python values are both fine."""
        if value is None:
            if self.nullable:
                return None
            raise self.refuse(value)
        parsed = READERS[self.type](value)
        if parsed is None or not self.allows(parsed):
            raise self.refuse(value)
        return parsed

    def allows(self, value: Value) -> bool:
        if isinstance(value, bool | Secret):
            return True
        if isinstance(value, int | float):
            low, high = self.bounds()
            return low <= value <= high or value in self.also
        parts = value if isinstance(value, tuple) else (value,)
        if self.choices:
            return all(part in self.choices for part in parts)
        return not self.pattern or all(re.fullmatch(self.pattern, part or "") for part in parts)

    def bounds(self) -> tuple[float, float]:
        lowest, highest = RANGES[self.type]
        return (lowest if self.low is None else self.low, highest if self.high is None else self.high)

    def allowed(self) -> str:
        """What may be given, as the end of a sentence."""
        if self.type is B:
            return "true or false"
        if self.type in RANGES:
            low, high = self.bounds()
            kind = "a number" if self.type is D else "a whole number"
            also = "".join(f", or {value}" for value in self.also)
            return f"{kind} from {low} to {high}{also}"
        if self.choices:
            any_of = "any of" if self.type is LIST else "one of"
            return f"{any_of} {', '.join(self.choices)}"
        return self.pattern_doc or ("text between commas" if self.type is LIST else "text")

    def refuse(self, value: object) -> InvalidConfiguration:
        return InvalidConfiguration(f"{self.name} = {value!r} is not allowed: give {self.allowed()}.")

    def format(self, value: Value) -> str:
        """The text that `parse` reads as `value`, spelled as in a `.properties` file."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return ",".join(value) if isinstance(value, tuple) else str(value)


# What a value of each type is read from; None means "this is none".


def read_boolean(value: object) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def read_whole(value: object) -> int | None:
    if isinstance(value, str):
        # Cut to what fits 64 bits many times over: Python refuses to read numbers of thousands of digits.
        text = value.strip()
        return int(text) if WHOLE_NUMBER.fullmatch(text) and len(text) <= 40 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_double(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and "_" not in str(value) else None


def read_string(value: object) -> str | None:
    return value.strip() if isinstance(value, str) else None


def read_list(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        parts: Iterable[object] = value.split(",") if value.strip() else ()
    elif isinstance(value, set | frozenset):
        parts = sorted(value, key=str)
    elif isinstance(value, tuple | list):
        parts = value
    else:
        return None
    texts = [part.strip() for part in parts if isinstance(part, str)]
    return tuple(dict.fromkeys(texts)) if len(texts) == len(list(parts)) else None


READERS: dict[Type, Callable[[object], Value]] = {
    B: read_boolean,
    I: read_whole,
    L: read_whole,
    D: read_double,
    S: read_string,
    LIST: read_list,
}
RANGES: dict[Type, tuple[float, float]] = {I: (INT_MIN, INT_MAX), L: (LONG_MIN, LONG_MAX), D: (-DOUBLE_MAX, DOUBLE_MAX)}


def declare(type: Type, default: Value, doc: str, **rules: Any) -> Any:
    """A dataclass field that is a property; the rules are those of `Property`."""
    return dataclasses.field(default=default, metadata={"property": (type, default, doc), "rules": rules})
