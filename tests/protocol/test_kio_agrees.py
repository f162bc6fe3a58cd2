"""kio, generated from Kafka 4.3's own schemas, as a second opinion: on every message it has, field by field and in bytes.

Only bytes that we made go to it: five hostile ones would end the process.
"""

from __future__ import annotations

import dataclasses
import io
import random
import types
import typing
from typing import Any

import pytest

from milepost.protocol import generated
from milepost.protocol.apis import APIS, BY_KEY, Api
from milepost.protocol.error_codes import RETRIABLE, ErrorCode
from milepost.protocol.schema import Field, Struct
from tests.protocol.random_messages import random_message

kio_index = pytest.importorskip("kio.index", reason="kio has no wheel for this Python")
kio_serial = pytest.importorskip("kio.serial", reason="kio has no wheel for this Python")

OTHER_NAMES_FOR_TYPES = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
INTEGERS = ("int8", "int16", "int32", "int64")
# Kafka 3.9's and older; kio is generated from 4.3.
NOT_IN_KIO = {4, 5, 6, 7}


def kio_class(key: int, version: int, kind: str) -> Any:
    load = kio_index.load_request_schema if kind == "request" else kio_index.load_response_schema
    return load(key, version)


def versions(api: Api) -> range:
    return range(api.served[0], api.known[1] + 1)


def our_layout(struct: Struct, version: int) -> list[Any]:
    return [
        (plain(field.name), field.tag, field.array, nullable(field, version), our_type(field, version))
        for field in struct.fields
        if field.exists_in(version)
    ]


def our_type(field: Field, version: int) -> Any:
    return field.type if field.struct is None else our_layout(field.struct, version)


def nullable(field: Field, version: int) -> bool:
    # kio has None for the zero uuid, so it calls them all optional.
    return field.type == "uuid" or field.is_nullable_in(version)


def plain(name: str) -> str:
    """kio leaves the unit out of names, and makes a time of the value."""
    return name.removesuffix("_ms")


def kio_layout(cls: Any) -> list[Any]:
    hints = typing.get_type_hints(cls)
    layout = []
    for field in dataclasses.fields(cls):
        hint, optional = without_none(hints[field.name])
        array = typing.get_origin(hint) is tuple
        if array:
            hint, inner_optional = without_none(typing.get_args(hint)[0])
            optional = optional or inner_optional
        kind = field.metadata.get("kafka_type")
        optional = optional and kind != "datetime_i64"  # None there stands for -1
        inner = kio_layout(hint) if kind is None else OTHER_NAMES_FOR_TYPES.get(kind, kind)
        layout.append((plain(field.name), field.metadata.get("tag"), array, optional, inner))
    return layout


def assert_same_defaults(ours: Any, cls: Any, version: int) -> None:
    hints = typing.get_type_hints(cls)
    present = [field for field in ours._schema.fields if field.exists_in(version)]
    for field, theirs in zip(present, dataclasses.fields(cls), strict=True):
        if field.struct is not None:
            hint, _ = without_none(hints[theirs.name])
            hint = typing.get_args(hint)[0] if field.array else hint
            assert_same_defaults(getattr(ours, field.struct.class_name), hint, version)
        # What is a time, a duration or a uuid to them is a number or bytes to us.
        elif type(theirs.default) in (int, str, bool, types.NoneType) and theirs.metadata["kafka_type"] in (
            "string",
            "bool",
            *INTEGERS,
        ):
            assert field.default == theirs.default, f"{ours.__qualname__}.{field.name}"


def without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [argument for argument in typing.get_args(hint) if argument is not types.NoneType]
        return rest[0], len(rest) < len(typing.get_args(hint))
    return hint, False


@pytest.mark.parametrize("key", [api.key for api in APIS if api.key not in NOT_IN_KIO], ids=lambda key: BY_KEY[key].name)
def test_every_version_has_the_fields_that_kio_has_and_its_bytes_come_back_from_kio(key):
    rng = random.Random(key)
    for version in versions(BY_KEY[key]):
        for kind in ("request", "response"):
            cls = kio_class(key, version, kind)
            ours = generated.class_named(BY_KEY[key].name + kind.capitalize())
            assert our_layout(ours._schema, version) == kio_layout(cls), f"{kind} {version}"
            assert_same_defaults(ours, cls, version)
            encode = (generated.request_encoder if kind == "request" else generated.response_encoder)(key, version)
            decode = (generated.request_decoder if kind == "request" else generated.response_decoder)(key, version)
            for _ in range(3):
                message = random_message(key, version, kind, rng, tame=True)
                pieces: list[Any] = []
                encode(message, pieces.append)
                written = b"".join(pieces)
                assert decode(written, 0) == (message, len(written))
                read, size = kio_serial.entity_reader(cls)(written, 0)
                assert size == len(written)
                out = io.BytesIO()
                kio_serial.entity_writer(cls)(out, read)
                assert out.getvalue() == written, f"{kind} {version}: {message!r}"


def test_error_codes_are_those_of_kio():
    from kio.schema.errors import ErrorCode as KioErrorCode

    assert {code.name.lower(): (code.value, code in RETRIABLE) for code in ErrorCode} == {
        code.name: (code.value, code.retriable) for code in KioErrorCode
    }
