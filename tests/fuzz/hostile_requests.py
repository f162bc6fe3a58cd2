"""Requests that a broker has to take apart: made from schemas and recordings, half meant well, and then damaged.

    from the schema    every API and version, each field on its own: a word that means something (`vocabulary`), or a corner value
    from recordings    frames of real clients, with names and ids of this broker put in
    damage             corner bytes, cuts, lengths that lie, pieces repeated, pieces of other requests
    noise              a header that is fine, and a body of random bytes

The same for the same seed, as long as the broker answers the same.
"""

from __future__ import annotations

import functools
import random
from typing import Any

from milepost.errors import MilepostError
from milepost.protocol import frames, generated, headers
from milepost.protocol.apis import BY_KEY
from milepost.protocol.message import Message
from milepost.protocol.schema import NUMBERS, Field
from tests.fuzz.hostile_batches import CORNER_BYTES, hostile_batch
from tests.fuzz.vocabulary import BITS, ODD_NAMES, Facts
from tests.golden_wire_fixture import all_messages

LYING_LENGTHS = [
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff", b"\xff\xfe"),
    *(b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f"),
]
CLIENT_IDS = [None, "", "fuzz", "fuzz", "fuzz", "x" * 300, "a\nb\x1b[31m"]


class Requests:
    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self._facts = Facts(self.rng)
        self._fact: dict[str, Any] = {}
        self._before: list[bytes] = [bytes(8)]

    def learn(self, frame: bytes, response: Message) -> None:
        """What an answer says, to be used in later requests."""
        try:
            request = frames.decode_request(headers.read_request_header(frame), frame)[0]
        except MilepostError:
            request = None
        self._facts.learn(request, response)

    # Making.

    def frame(self, key: int, version: int) -> bytes:
        """One request of this API and version, without its size."""
        rng = self.rng
        self._fact = self._facts.some()
        recorded = recordings().get((key, version))
        if recorded and rng.random() < 0.3:
            body = generated.request_decoder(key, version)(rng.choice(recorded), 0)[0]
            self._adapt(body, version)
        else:
            body = self.message(key, version)
        frame = frames.encode_request(key, version, rng.randrange(2**31), rng.choice(CLIENT_IDS), body)[4:]
        self._before.append(frame)
        del self._before[:-50]
        return frame if rng.random() < 0.6 else self.damaged(frame)

    def noise(self, key: int, version: int) -> bytes:
        header = headers.request_header(key, version, self.rng.randrange(2**31), "noise")
        return header + self.rng.randbytes(self.rng.randrange(80))

    def message(self, key: int, version: int) -> Any:
        return self._struct(generated.class_named(BY_KEY[key].name + "Request"), version)

    def _struct(self, cls: type[Any], version: int) -> Any:
        fields = [field for field in cls._schema.fields if field.exists_in(version)]
        present = [field for field in fields if field.tag is None or self.rng.random() < 0.5]
        return cls(**{field.name: self._value(cls, field, version) for field in present})

    def _value(self, cls: type[Any], field: Field, version: int) -> Any:
        if field.is_nullable_in(version) and self.rng.random() < 0.15:
            return None
        if field.array:
            return [self._element(cls, field, version) for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3)))]
        return self._element(cls, field, version)

    def _element(self, cls: type[Any], field: Field, version: int) -> Any:
        if field.struct is not None:
            return self._struct(getattr(cls, field.struct.class_name), version)
        if field.type == "records":
            return self._records()
        words = self._facts.words(cls._schema.class_name, field, self._fact)
        return self.rng.choice(words) if words and self.rng.random() < 0.85 else self._corner(field)

    def _corner(self, field: Field) -> Any:
        rng = self.rng
        if field.type == "string":
            return rng.choice([*ODD_NAMES, "a", "bc", "y" * 2000, "z" * 32767])
        if field.type == "bytes":
            return rng.randbytes(rng.choice((0, 1, 7, 200)))
        if field.type == "uuid":
            return rng.choice([bytes(16), rng.randbytes(16)])
        if field.type == "bool":
            return rng.random() < 0.5
        if field.type == "float64":
            return rng.choice([0.0, -1.0, 1e300, float("nan"), float("inf")])
        if field.type == "uint16":
            return rng.randrange(1 << 16)
        half = 1 << BITS[field.type] - 1
        return rng.choice((0, -1, 1, 2, half - 1, -half, rng.randrange(-half, half), rng.randrange(20)))

    def _records(self) -> bytes:
        producer_id = self._fact.get("producer_id", -1)
        if producer_id < 0 or self.rng.random() < 0.3:
            return hostile_batch(self.rng, -1, -1)
        return hostile_batch(self.rng, producer_id, max(self._fact.get("producer_epoch", 0), 0))

    def _adapt(self, message: Any, version: int) -> None:
        """Names and ids of this broker in the place of recorded ones, each with a chance of its own."""
        for field in message._schema.fields:
            value = getattr(message, field.name)
            if not field.exists_in(version) or value is None:
                continue
            if field.struct is not None:
                for each in value if field.array else [value]:
                    self._adapt(each, version)
            elif field.type == "records":
                message.records = self._records()
            elif not field.array:
                chance = self.rng.random()
                words = self._facts.words(message._schema.class_name, field, self._fact)
                if words and chance < 0.6:
                    setattr(message, field.name, self.rng.choice(words))
                elif chance > 0.95 and field.type in NUMBERS:
                    setattr(message, field.name, self._corner(field))

    # Damage.

    def damaged(self, frame: bytes) -> bytes:
        """The key and version stay; the first five bytes say which request it is."""
        rng = self.rng
        data = bytearray(frame)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            at = rng.randrange(min(8, len(data)), len(data) + 1)
            kind = rng.randrange(7)
            if kind == 0 and at < len(data):
                data[at] = rng.choice([*CORNER_BYTES, rng.randrange(256)])
            elif kind == 1:
                del data[at:]
            elif kind == 2:
                lie = rng.choice(LYING_LENGTHS)
                data[at : at + len(lie)] = lie
            elif kind == 3:
                other = rng.choice(self._before)
                start = rng.randrange(len(other))
                data[at:at] = other[start : start + rng.randrange(60)]
            elif kind == 4:
                data[at:at] = data[at : at + rng.randrange(40)]
            elif kind == 5:
                del data[at : at + rng.randrange(1, 9)]
            else:
                data += rng.randbytes(rng.randrange(20))
        return bytes(data) or b"\0"


@functools.cache
def recordings() -> dict[tuple[int, int], list[bytes]]:
    """The bodies of recorded requests by API and version."""
    found: dict[tuple[int, int], list[bytes]] = {}
    for message in all_messages():
        if message.kind == "request":
            found.setdefault((message.api_key, message.body_version), []).append(message.frame[message.body_start :])
    return found
