"""Messages filled at random from their schema, with every field that a version has; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from milepost.protocol import generated
from milepost.protocol.apis import APIS
from milepost.protocol.schema import Field

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def every_message() -> Iterator[tuple[int, int, str]]:
    """(api key, version, "request" or "response") of everything there is."""
    for api in APIS:
        for version in range(api.known[0], api.known[1] + 1):
            yield api.key, version, "request"
            yield api.key, version, "response"


def random_message(key: int, version: int, kind: str, rng: random.Random, *, tame: bool = False) -> Any:
    """`tame`: only values that mean something, for readers that make times and error names of them."""
    cls = generated.class_named(generated.api_of(key, version).name + kind.capitalize())
    return _struct(cls, version, rng, tame)


def _struct(cls: type[Any], version: int, rng: random.Random, tame: bool) -> Any:
    present = [field for field in cls._schema.fields if field.exists_in(version)]
    return cls(**{field.name: _value(cls, field, version, rng, tame) for field in present})


def _value(cls: type[Any], field: Field, version: int, rng: random.Random, tame: bool) -> Any:
    if field.is_nullable_in(version) and rng.random() < 0.25:
        return None
    if field.array:
        return [_element(cls, field, version, rng, tame) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return _element(cls, field, version, rng, tame)


def _element(cls: type[Any], field: Field, version: int, rng: random.Random, tame: bool) -> Any:
    if field.struct is not None:
        return _struct(getattr(cls, field.struct.class_name), version, rng, tame)
    if field.type == "string":
        return "".join(rng.choices("abcé中-", k=rng.choice((0, 1, 5, 130))))
    if field.type in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 7, 200)))
    if field.type == "uuid":
        return rng.randbytes(16)
    if field.type == "bool":
        return rng.random() < 0.5
    if field.type == "float64":
        return rng.uniform(-1e6, 1e6)
    if tame:
        return rng.randrange(128)
    if field.type == "uint16":
        return rng.randrange(1 << 16)
    bits = INTEGER_BITS[field.type]
    return rng.choice((0, -1, 1, (1 << bits - 1) - 1, -(1 << bits - 1), rng.randrange(-(1 << bits - 1), 1 << bits - 1)))
