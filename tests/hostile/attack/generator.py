"""The attacks on one API in one version, from the schema of its request.

array    filled to 1 MB: with unknown names, with known ones, with one of them repeated; everything around it is as it should be
text     as long as a text can be, in as many elements as make 1 MB of it; and one that is a hostile pattern
bytes    1 MB of nothing
records  1 MB of nothing, 1 MB of tiny records, and a million of them compressed
number   at its ends, at 0 and at -1, one request for each
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from milepost.codec.compression import Codec
from milepost.protocol import frames, generated
from milepost.protocol.apis import Api
from milepost.protocol.message import Message
from milepost.protocol.schema import Field
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.hostile.attack.vocabulary import BY_ID, BY_NAME, CHOICES, KNOWN, REPEATS, UNKNOWN, Vocabulary
from tests.hostile.attack.world import World
from tests.hostile.besieged import NOW

MOST_BYTES = 1 << 20
MOST_ELEMENTS = 99_000  # of one message: a reader refuses more than 100,000
LONGEST_TEXT = 32_767
KNOWN_PERIOD = 2020  # of names and partitions: 101 topics, 200 partitions of the widest, 50 groups, 20 transactions, roughly
PATTERN = "(((((){1000}){1000}){1000}){1000}){1000}"
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

Path = tuple[str, ...]


@dataclass(frozen=True)
class Attack:
    api: Api
    version: int
    field: str
    kind: str
    frames: Callable[[], list[bytes]]
    """Makes what is sent: one after the other, each on a connection of its own. A megabyte takes a while, so nobody makes it unasked."""


def attacks(api: Api, version: int, world: World) -> Iterator[Attack]:
    cls = generated.class_named(f"{api.name}Request")
    maker = Maker(api, version, cls, world)
    yield maker.attack("", "plain", lambda: [maker.frame(maker.words())])
    for path, field in fields_of(cls, version):
        if field.array:
            yield from maker.fill(path)
        if field.struct is None:
            yield from maker.extremes(path, field)


def fields_of(cls: Any, version: int, around: Path = ()) -> Iterator[tuple[Path, Field]]:
    for field in cls._schema.fields:
        if field.exists_in(version):
            yield (*around, field.name), field
            if field.struct is not None:
                yield from fields_of(getattr(cls, field.struct.class_name), version, (*around, field.name))


class Maker:
    def __init__(self, api: Api, version: int, cls: Any, world: World):
        self._api, self._version, self._cls, self._world = api, version, cls, world
        fields = {path[-1]: field for path, field in fields_of(cls, version)}
        choices: list[tuple[int | str, ...]] = [values for name, values in CHOICES.items() if name in fields]
        if "topic_id" in fields and "name" in fields:
            choices.append((BY_NAME, BY_ID))
        self._choices: tuple[int | str | None, ...] = choices[0] if choices else (None,)

    def attack(self, field: str, kind: str, make: Callable[[], list[bytes]]) -> Attack:
        return Attack(self._api, self._version, field, kind, make)

    def words(self, kind: str = KNOWN, choice: int | str | None = None) -> Vocabulary:
        """As the world is when they are asked for: it may have been renewed since."""
        return Vocabulary(self._world, kind, choice)

    def frame(self, words: Vocabulary, path: Path = (), count: int = 1, value: Any = None) -> bytes:
        """With `count` elements in the array at `path`, or in the innermost around it, and `value` there if it is one."""
        body = self._message(self._cls, words, path, count, value, "", 0, not path)
        return frames.encode_request(self._api.key, self._version, 7, "attack", body)

    def _message(
        self, cls: Any, words: Vocabulary, path: Path, count: int, value: Any, parent: str, number: int, inside: bool
    ) -> Message:
        given: dict[str, Any] = {}
        for field in cls._schema.fields:
            if not field.exists_in(self._version):
                continue
            rest = path[1:] if path and path[0] == field.name else None
            if field.tag is not None and rest is None:
                continue  # left out, unless it is what is attacked
            # The last array on the way is the one that is filled.
            is_filled = rest is not None and field.array and not self._has_array_on(field, rest)
            length = count if is_filled else 1

            def element(index: int, field: Field = field, rest: Path | None = rest, is_filled: bool = is_filled) -> Any:
                within = inside or is_filled
                if field.struct is not None:
                    made = getattr(cls, field.struct.class_name)
                    at = index if field.array else number
                    return self._message(made, words, rest or (), count, value, field.name, at, within)
                if rest == () and value is not None:
                    return value(index if field.array else number) if callable(value) else value
                return words.value(parent, field, index if field.array else number, within)

            if not field.array:
                given[field.name] = element(0)
            elif is_filled and value is None and words.kind != UNKNOWN:
                # What is known comes round again; the same objects may, too.
                period = 1 if words.kind == REPEATS else KNOWN_PERIOD
                around = [element(index) for index in range(min(length, period))]
                given[field.name] = (around * (length // len(around) + 1))[:length]
            else:
                given[field.name] = [element(index) for index in range(length)]
        return cls(**given)

    def _has_array_on(self, field: Field, rest: Path) -> bool:
        struct = field.struct
        for name in rest:
            if struct is None:
                return False
            (found,) = [each for each in struct.fields if each.name == name]
            if found.array:
                return True
            struct = found.struct
        return False

    # Arrays.

    def fill(self, path: Path) -> Iterator[Attack]:
        for choice in self._choices:
            for kind in (UNKNOWN, KNOWN, REPEATS):
                words = partial(self.words, kind, choice)
                named = kind if choice is None else f"{kind} of {choice}"
                yield self.attack(".".join(path), named, partial(self._filled, words, path))

    def _filled(self, make: Callable[[], Vocabulary], path: Path, value: Any = None) -> list[bytes]:
        words = make()
        small, large = len(self.frame(words, path, 1, value)), len(self.frame(words, path, 21, value))
        each = max(1, (large - small) // 20)
        inner = [field for other, field in fields_of(self._cls, self._version) if other != path and other[: len(path)] == path]
        within = 1 + sum(field.array for field in inner)
        count = max(1, min((MOST_BYTES - small) // each, MOST_ELEMENTS // within))
        while len(made := self.frame(words, path, count, value)) > MOST_BYTES and count > 1:
            count = min(count - 1, count * MOST_BYTES * 99 // (len(made) * 100))
        return [made]

    # Single values.

    def extremes(self, path: Path, field: Field) -> Iterator[Attack]:
        name = ".".join(path)

        def each(*values: Any) -> Callable[[], list[bytes]]:
            return lambda: [self.frame(self.words(), path, 1, value) for value in values]

        if field.type == "string":
            is_in_array = any(each.array for other, each in fields_of(self._cls, self._version) if other == path[: len(other)])
            text = lambda number: f"{number:06}".ljust(LONGEST_TEXT, "x")  # noqa: E731
            yield self.attack(name, "longest", partial(self._filled, self.words, path, text) if is_in_array else each(text))
            yield self.attack(name, "pattern", each(PATTERN))
        elif field.type == "bytes":
            yield self.attack(name, "1 MB", each(bytes(MOST_BYTES - 1000)))
        elif field.type == "records":
            for kind, make in HOSTILE_RECORDS.items():
                yield self.attack(name, kind, partial(self._with_records, path, make))
        elif field.type == "float64":
            yield self.attack(name, "extremes", each(math.nan, math.inf, -math.inf, 1e308, -1.0))
        elif field.type in BITS:
            half = 1 << BITS[field.type] - 1
            yield self.attack(name, "extremes", each(-half, -1, 0, 1, half - 1))

    def _with_records(self, path: Path, make: Callable[[], bytes]) -> list[bytes]:
        return [self.frame(self.words(), path, 1, memoryview(make()))]


@cache
def tiny_records(count: int, codec: Codec) -> bytes:
    return build_batch([Record(number, NOW, None, b"") for number in range(count)], base_offset=0, codec=codec)


HOSTILE_RECORDS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: bytes(MOST_BYTES - 1000),
    "tiny records": partial(tiny_records, 100_000, Codec.NONE),
    "zstd of tiny records": partial(tiny_records, 1_000_000, Codec.ZSTD),
}
