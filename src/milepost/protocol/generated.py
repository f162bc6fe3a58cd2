"""Encoders and decoders by API and version, made on first use and kept.

A broker needs the decoders of requests and the encoders of responses, a client the others: each is made on its own, in less than
a millisecond for nearly all of them.

A decoder makes at most so many elements of all the arrays of one message, because a byte of an array can become an object of
fifty and more, and what a handler answers for it another few hundred:

    100,000       of a request
    5,000,000     of LeaderAndIsr and UpdateMetadata, which name every replica of every partition of a cluster
    10,000,000    of a response: whom a client connects to, it has chosen itself

Large requests and large responses have decoders and encoders that stop every few elements (`sliced_...`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from milepost.errors import UnsupportedVersion
from milepost.protocol.apis import BY_KEY, BY_NAME, Api
from milepost.protocol.decoder import Decoder, SlicedDecoder, make_decoder, make_sliced_decoder
from milepost.protocol.encoder import Encoder, SlicedEncoder, make_encoder, make_sliced_encoder
from milepost.protocol.message import Message, message_class
from milepost.protocol.schema import blocks, parse_block

MAX_REQUEST_ELEMENTS = 100_000
MAX_CONTROLLER_REQUEST_ELEMENTS = 5_000_000
MAX_RESPONSE_ELEMENTS = 10_000_000
CONTROLLER_REQUESTS = {4, 6}

_classes: dict[str, type[Message]] = {}


@cache
def request_decoder(key: int, version: int) -> Decoder:
    return make_decoder(*_request_shape(key, version))


@cache
def sliced_request_decoder(key: int, version: int) -> SlicedDecoder:
    return make_sliced_decoder(*_request_shape(key, version))


@cache
def request_encoder(key: int, version: int) -> Encoder:
    return make_encoder(*_shape(api_of(key, version), "request", version))


@cache
def response_decoder(key: int, version: int) -> Decoder:
    return make_decoder(*_shape(api_of(key, version), "response", version), MAX_RESPONSE_ELEMENTS)


@cache
def response_encoder(key: int, version: int) -> Encoder:
    return make_encoder(*_shape(api_of(key, version), "response", version))


@cache
def sliced_response_encoder(key: int, version: int) -> SlicedEncoder:
    return make_sliced_encoder(*_shape(api_of(key, version), "response", version))


def api_of(key: int, version: int) -> Api:
    api = BY_KEY.get(key)
    if api is None:
        raise UnsupportedVersion(f"there is no API with key {key} here")
    if not api.knows(version):
        raise UnsupportedVersion(f"{api.name} (key {key}) has versions {api.known[0]} to {api.known[1]} here, not {version}")
    return api


def class_named(name: str) -> type[Message]:
    """`ProduceRequest`; KeyError when there is none."""
    cls = _classes.get(name)
    if cls is None:
        _load(BY_NAME[name.removesuffix("Request").removesuffix("Response")])
        cls = _classes[name]
    return cls


def _load(api: Api) -> None:
    table: str = import_module(f"milepost.protocol.tables.{api.family}").TABLE
    for schema in parse_block(blocks(table)[api.name]):
        _classes[schema.name] = message_class(schema)


def _shape(api: Api, kind: str, version: int) -> tuple[type[Message], str, int, bool]:
    cls = class_named(api.name + kind.capitalize())
    return cls, f"{api.name} {kind} {version}", version, api.is_flexible(version)


def _request_shape(key: int, version: int) -> tuple[type[Message], str, int, bool, int]:
    limit = MAX_CONTROLLER_REQUEST_ELEMENTS if key in CONTROLLER_REQUESTS else MAX_REQUEST_ELEMENTS
    return *_shape(api_of(key, version), "request", version), limit
