"""Bytes to messages: a decoder for one message in one version, generated from its schema and compiled.

Everything is inlined into one function, arrays as nested loops. Numbers that follow each other are read by one `struct` call, and
so is the first byte (or, in old versions, the whole) of the length that comes after them. For `Produce` 9 it begins like this:

    n = buf[pos]; pos += 1                          transactional_id: length + 1, 0 is null
    ...
    o0.acks, o0.timeout_ms, n = S1(buf, pos)        then the count of topic_data + 1
    pos += 7
    ...
    for _ in range(n):
        o1 = new(C2)

The decoder takes the frame, the position of the body and how many elements it may make; it returns the message and the position behind
it. Bytes behind that are not its business. Whatever is wrong raises `MalformedMessage`, and nothing else does; too many elements raise
`TooManyElements`, which is one. The tagged fields that nobody knows count as elements: they are walked one by one.

`make_sliced_decoder` makes its twin for large messages: a generator with the same result, which yields every few elements.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

from milepost.codec.buffer import Buffer
from milepost.errors import MalformedMessage, TooManyElements
from milepost.protocol import reading
from milepost.protocol.message import Message
from milepost.protocol.schema import FRESH, NUMBERS, Field, Struct
from milepost.protocol.source import Source

Decoder = Callable[..., tuple[Any, int]]
SlicedDecoder = Callable[[Buffer, int], Generator[None, None, tuple[Any, int]]]

SLICE_ELEMENTS = 32

_HELPERS = {
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
    "Wrong": (IndexError, struct.error, ValueError),
    "more": reading.more,
    "more_string": reading.more_string,
    "bad_length": reading.bad_length,
    "bad_count": reading.bad_count,
    "bad_presence": reading.bad_presence,
    "too_many": reading.too_many,
    "tag": reading.tag,
    "tag_count": reading.tag_count,
    "tag_misfit": reading.tag_misfit,
    "unknown_tags": reading.unknown_tags,
}

_CONTENTS = {
    "string": 'str(buf[pos:end], "utf-8")',
    "bytes": "bytes(buf[pos:end])",
    "records": "view[pos:end]",
}


def make_decoder(cls: type[Message], title: str, version: int, flexible: bool, max_elements: int) -> Decoder:
    """`title` names the message in errors: "Produce request 9"."""
    decoder: Decoder = _Generator(cls, title, version, flexible, max_elements).decoder()
    return decoder


def make_sliced_decoder(cls: type[Message], title: str, version: int, flexible: bool, max_elements: int) -> SlicedDecoder:
    decoder: SlicedDecoder = _Generator(cls, title, version, flexible, max_elements, in_slices=True).decoder()
    return decoder


class _Generator:
    def __init__(
        self, cls: type[Message], title: str, version: int, flexible: bool, max_elements: int, *, in_slices: bool = False
    ) -> None:
        self.cls = cls
        self.title = title
        self.version = version
        self.flexible = flexible
        self.in_slices = in_slices
        self.source = Source(f"decode(buf, pos, budget={max_elements})")
        # What the next `struct` call reads: (assignment target, letter, field).
        self.pending: list[tuple[str, str, str]] = []

    def decoder(self) -> Any:
        source = self.source
        source.add(1, f"size = len(buf){'; view = memoryview(buf)' if self.has_records(self.cls._schema) else ''}")
        if self.in_slices:
            source.add(1, "made = 0")
            source.add(1, "if False: yield")  # a generator also where there is no array
        source.add(1, "try:")
        self.struct(self.cls, 2, 0, "")
        source.add(2, "return o0, pos")
        source.add(1, "except Wrong as error:")
        source.add(2, "raise malformed(error, pos, size) from None")

        def malformed(error: Exception, position: int, size: int) -> MalformedMessage:
            field = source.field_of(error.__traceback__) or "the body"
            kind = TooManyElements if isinstance(error, reading.TooMany) else MalformedMessage
            return kind(f"{self.title}: {field} {reading.describe(error)}, at byte {position} of {size}")

        helpers = {**_HELPERS, "malformed": malformed}
        return source.function(f"<decoder of {self.title}>", helpers)

    def has_records(self, schema: Struct) -> bool:
        return any(field.type == "records" or (field.struct and self.has_records(field.struct)) for field in schema.fields)

    def struct(self, cls: type[Message], depth: int, level: int, path: str) -> None:
        """One struct into the variable `o<level>`."""
        target = f"o{level}"
        self.source.add(depth, f"{target} = new({self.source.name('C', cls)})")
        tagged = []
        for field in cls._schema.fields:
            if field.exists_in(self.version):
                if field.tag is None:
                    self.field(cls, field, depth, level, f"{path}{field.name}")
                else:
                    tagged.append(field)
        if self.flexible:
            self.tagged_fields(cls, tagged, depth, level, path)
        self.flush(depth)

    def field(self, cls: type[Message], field: Field, depth: int, level: int, path: str) -> None:
        target = f"o{level}.{field.name}"
        nullable = field.is_nullable_in(self.version)
        if field.array:
            self.array(cls, field, depth, level, path)
        elif field.struct is not None:
            self.single_struct(cls, field.struct, target, nullable, depth, level, path)
        elif field.type in NUMBERS:
            self.pending.append((target, NUMBERS[field.type], path))
        else:
            self.sized(target, field.type, nullable, depth, path)

    def sized(self, target: str, kind: str, nullable: bool, depth: int, path: str, store: str = "{} = {}") -> None:
        """A string, bytes or records: a length, then that many bytes."""
        add = self.source.add
        is_string = kind == "string"
        self.length("h" if is_string else "i", "more_string" if is_string else "more", depth, path)
        length = "n - 1" if self.flexible else "n"
        if nullable:
            add(depth, f"if n == {0 if self.flexible else -1}:", path)
            add(depth + 1, store.format(target, "None"), path)
            add(depth, "else:", path)
            depth += 1
        add(depth, f"end = pos + {length}", path)
        add(depth, f"if not pos <= end <= size: bad_length({length}, size - pos)", path)
        add(depth, store.format(target, _CONTENTS[kind]), path)
        add(depth, "pos = end", path)

    def array(self, cls: type[Message], field: Field, depth: int, level: int, path: str) -> None:
        add = self.source.add
        target = f"o{level}.{field.name}"
        smallest = smallest_size(field, self.version, self.flexible, element=True)
        self.length("i", "more", depth, path)
        if self.flexible:
            add(depth, "n -= 1", path)
        nullable = field.is_nullable_in(self.version)
        if nullable:
            add(depth, f"if n == -1: {target} = None", path)
        if field.default is FRESH:
            # An empty list is not made before somebody looks: it would be 56 bytes of memory for one of the frame.
            add(depth, "elif n:" if nullable else "if n:", path)
            depth += 1
        elif nullable:
            add(depth, "else:", path)
            depth += 1
        add(depth, f"if not 0 <= n * {smallest} <= size - pos: bad_count(n, {smallest}, size - pos)", path)
        add(depth, "budget -= n", path)
        add(depth, "if budget < 0: too_many()", path)
        if field.type in NUMBERS:
            add(depth, f'{target} = list(unpack_from(f">{{n}}{NUMBERS[field.type]}", buf, pos))', path)
            add(depth, f"pos += n * {smallest}", path)
            return
        add(depth, f"{target} = l{level} = []", path)
        add(depth, "for _ in range(n):", path)
        if self.in_slices:
            # One count for all loops: however they are nested, so many elements are made between two pauses.
            add(depth + 1, "made += 1", path)
            add(depth + 1, f"if not made % {SLICE_ELEMENTS}: yield", path)
        if field.struct is not None:
            self.struct(_class_of(cls, field.struct), depth + 1, level + 1, f"{path}[].")
            add(depth + 1, f"l{level}.append(o{level + 1})", path)
        else:
            self.sized(f"l{level}", field.type, False, depth + 1, f"{path}[]", "{}.append({})")

    def single_struct(
        self, cls: type[Message], schema: Struct, target: str, nullable: bool, depth: int, level: int, path: str
    ) -> None:
        add = self.source.add
        inner = _class_of(cls, schema)
        if nullable:
            self.pending.append(("n", "b", path))
            self.flush(depth)
            add(depth, f"if n == -1: {target} = None", path)
            add(depth, "else:", path)
            depth += 1
            add(depth, "if n != 1: bad_presence(n)", path)
        else:
            self.flush(depth)
        self.struct(inner, depth, level + 1, f"{path}.")
        add(depth, f"{target} = o{level + 1}", path)

    def tagged_fields(self, cls: type[Message], tagged: list[Field], depth: int, level: int, path: str) -> None:
        add = self.source.add
        section = f"{path}tags"
        self.pending.append(("n", "B", section))
        self.flush(depth)
        if not tagged:
            add(depth, "if n:", section)
            add(depth + 1, f"o{level}.unknown_tags, pos, n = unknown_tags(buf, pos, n, size); budget -= n", section)
            add(depth + 1, "if budget < 0: too_many()", section)
            return
        add(depth, "if n:", section)
        depth += 1
        add(depth, "n, pos = tag_count(buf, pos, n, size); budget -= n", section)
        add(depth, "if budget < 0: too_many()", section)
        add(depth, f"last{level} = -1; rest{level} = []", section)
        add(depth, "for _ in range(n):", section)
        add(depth + 1, f"start = pos; last{level}, pos, stop{level} = tag(buf, pos, last{level}, size)", section)
        for index, field in enumerate(tagged):
            name = f"{path}{field.name}"
            add(depth + 1, f"{'elif' if index else 'if'} last{level} == {field.tag}:", name)
            self.field(cls, field, depth + 2, level, name)
            self.flush(depth + 2)
            add(depth + 2, f"if pos != stop{level}: tag_misfit(pos, stop{level})", name)
        add(depth + 1, f"else: rest{level}.append(buf[start:stop{level}]); pos = stop{level}", section)
        add(depth, f'if rest{level}: o{level}.unknown_tags = b"".join(rest{level})', section)

    def length(self, old_letter: str, more: str, depth: int, path: str) -> None:
        """The length or count that comes next, into `n`; in flexible versions it is one more than that."""
        self.pending.append(("n", "B" if self.flexible else old_letter, path))
        self.flush(depth)
        if self.flexible:
            self.source.add(depth, f"if n > 127: n, pos = {more}(buf, pos, n)", path)

    def flush(self, depth: int) -> None:
        if not self.pending:
            return
        targets, letters, paths = zip(*self.pending, strict=True)
        self.pending = []
        path = paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
        if letters == ("B",):
            self.source.add(depth, f"{targets[0]} = buf[pos]; pos += 1", path)
            return
        layout = ">" + "".join(letters)
        read = self.source.struct(layout, lambda layout: struct.Struct(layout).unpack_from)
        self.source.add(depth, f"{', '.join(targets)}, = {read}(buf, pos)", path)
        self.source.add(depth, f"pos += {struct.calcsize(layout)}", path)


def smallest_size(field: Field, version: int, flexible: bool, *, element: bool = False) -> int:
    """How few bytes a field, or an element of an array, can take."""
    if field.array and not element:
        return 1 if flexible else 4
    if field.struct is not None:
        if not element and field.is_nullable_in(version):
            return 1
        present = (inner for inner in field.struct.fields if inner.exists_in(version) and inner.tag is None)
        return sum(smallest_size(inner, version, flexible) for inner in present) + flexible
    if field.type in NUMBERS:
        return struct.calcsize(">" + NUMBERS[field.type])
    return 1 if flexible else 2 if field.type == "string" else 4


def _class_of(cls: type[Message], schema: Struct) -> type[Message]:
    inner: type[Message] = getattr(cls, schema.class_name)
    return inner
