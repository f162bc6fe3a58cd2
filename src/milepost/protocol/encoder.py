"""Messages to bytes: an encoder for one message in one version, generated from its schema and compiled.

The encoder appends pieces to a list that its caller joins, or hands to a gathering write: the content of a `records` field is
appended as it is, not copied. Numbers that follow each other are one `struct` call.

`make_sliced_encoder` makes its twin for large messages: a generator that appends the same pieces, and yields every few elements.

Sentences for people (`error_message`) are cut where they get too long: they may hold what a stranger sent.
A message that cannot be written raises `InvalidArgument` (a number out of range, None where null is not allowed), or
`UnsupportedVersion` when it has a value that the version has no field for and that Kafka does not call ignorable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

from milepost.errors import InvalidArgument, UnsupportedVersion
from milepost.protocol import writing
from milepost.protocol.message import Message
from milepost.protocol.schema import FRESH, NUMBERS, ZERO_UUID, Field, Struct
from milepost.protocol.source import Source

Encoder = Callable[[Any, Callable[[Any], None]], None]
SlicedEncoder = Callable[[Any, Callable[[Any], None]], Generator[None, None, None]]
SLICE_ELEMENTS = 32

_HELPERS = {
    "pack": struct.pack,
    "join": b"".join,
    "Wrong": (AttributeError, TypeError, struct.error, ValueError),
    "V": writing.VARINTS,
    "L": writing.STRING_LENGTHS,
    "tagged_fields": writing.tagged_fields,
    "lost": writing.lost,
    "sentence": writing.sentence,
    "ZERO": b"\0",
    "ZERO_UUID": ZERO_UUID,
}


def make_encoder(cls: type[Message], title: str, version: int, flexible: bool) -> Encoder:
    """`title` names the message in errors: "Produce response 9"."""
    encoder: Encoder = _Generator(cls._schema, title, version, flexible).encoder()
    return encoder


def make_sliced_encoder(cls: type[Message], title: str, version: int, flexible: bool) -> SlicedEncoder:
    encoder: SlicedEncoder = _Generator(cls._schema, title, version, flexible, in_slices=True).encoder()
    return encoder


class _Generator:
    def __init__(self, schema: Struct, title: str, version: int, flexible: bool, *, in_slices: bool = False) -> None:
        self.schema = schema
        self.title = title
        self.version = version
        self.flexible = flexible
        self.in_slices = in_slices
        self.source = Source("encode(o0, a0)")
        # What the next `struct` call writes: (expression, letter, field).
        self.pending: list[tuple[str, str, str]] = []
        # How deep inside tagged fields: each has its own list of pieces, appended to by a0, a1, ...
        self.nesting = 0

    def encoder(self) -> Any:
        source = self.source
        if self.in_slices:
            source.add(1, "written = 0")
            source.add(1, "if False: yield")  # a generator also where there is no array
        source.add(1, "try:")
        self.struct(self.schema, 2, 0, "")
        source.add(2, "pass")
        source.add(1, "except Wrong as error:")
        source.add(2, "raise refused(error) from None")

        def refused(error: Exception) -> Exception:
            field = source.field_of(error.__traceback__)
            if isinstance(error, writing.Lost):
                return UnsupportedVersion(f"{self.title} {error}; leave it at its default or write another version")
            return InvalidArgument(f"{self.title}: {field or 'the message'} {_what(error)}")

        helpers = {**_HELPERS, "refused": refused}
        return source.function(f"<encoder of {self.title}>", helpers)

    def struct(self, schema: Struct, depth: int, level: int, path: str) -> None:
        """The struct in the variable `o<level>`."""
        tagged = []
        absent = []
        for field in schema.fields:
            if not field.exists_in(self.version):
                absent.append(field)
            elif field.tag is None:
                self.field(field, depth, level, f"{path}{field.name}")
            else:
                tagged.append(field)
        if self.flexible:
            self.tagged_fields(tagged, depth, level, path)
        self.flush(depth)
        for field in absent:
            if not field.ignorable and (field.array or field.default is not FRESH):
                value = f"o{level}.{field.name}"
                self.source.add(depth, f"if {differs(field, value)}: lost({path + field.name!r}, {value})", f"{path}{field.name}")

    def field(self, field: Field, depth: int, level: int, path: str) -> None:
        value = f"o{level}.{field.name}"
        nullable = field.is_nullable_in(self.version)
        if field.array:
            self.array(field, value, nullable, depth, level, path)
        elif field.struct is not None:
            self.single_struct(field.struct, value, nullable, depth, level, path)
        elif field.type in NUMBERS:
            self.pending.append((value, NUMBERS[field.type], path))
        else:
            self.sized(field.type, value, nullable, depth, path)

    def sized(self, kind: str, value: str, nullable: bool, depth: int, path: str) -> None:
        """A string, bytes or records: a length, then that many bytes."""
        add = self.source.add
        is_string = kind == "string"
        content = value
        if is_string:
            content = f"sentence({value})" if path.endswith("error_message") else f"{value}.encode()"
        length = "len(s) + 1" if self.flexible else "len(s)"
        if nullable:
            add(depth, f"s = {value}", path)
            add(depth, f'if s is None: s = b""; n = {0 if self.flexible else -1}', path)
            add(depth, f"else: s = {content}; n = {length}", path)
            length = "n"
        else:
            add(depth, f"s = {content}", path)
        self.length(length, "h" if is_string else "i", "L" if is_string else "V", depth, path)
        add(depth, f"a{self.nesting}(s)", path)

    def array(self, field: Field, value: str, nullable: bool, depth: int, level: int, path: str) -> None:
        add = self.source.add
        add(depth, f"l{level} = {value}", path)
        length = f"len(l{level}) + 1" if self.flexible else f"len(l{level})"
        if nullable:
            add(depth, f"if l{level} is None: l{level} = (); n = {0 if self.flexible else -1}", path)
            add(depth, f"else: n = {length}", path)
            length = "n"
        if field.type in NUMBERS:
            self.length(length, "i", "V", depth, path)
            add(depth, f'if l{level}: a{self.nesting}(pack(f">{{len(l{level})}}{NUMBERS[field.type]}", *l{level}))', path)
            return
        self.length(length, "i", "V", depth, path)
        add(depth, f"for o{level + 1} in l{level}:", path)
        if self.in_slices:
            add(depth + 1, "written += 1", path)
            add(depth + 1, f"if not written % {SLICE_ELEMENTS}: yield", path)
        if field.struct is not None:
            self.struct(field.struct, depth + 1, level + 1, f"{path}[].")
        else:
            self.sized(field.type, f"o{level + 1}", False, depth + 1, f"{path}[]")
        self.flush(depth + 1)

    def single_struct(self, schema: Struct, value: str, nullable: bool, depth: int, level: int, path: str) -> None:
        add = self.source.add
        self.flush(depth)
        add(depth, f"o{level + 1} = {value}", path)
        if nullable:
            add(depth, f"if o{level + 1} is None: a{self.nesting}(b'\\xff')", path)
            add(depth, "else:", path)
            depth += 1
            self.pending.append(("1", "b", path))
        self.struct(schema, depth, level + 1, f"{path}.")
        self.flush(depth)

    def tagged_fields(self, tagged: list[Field], depth: int, level: int, path: str) -> None:
        """Known ones that are not at their default, then unknown ones that came with the message."""
        add = self.source.add
        section = f"{path}tags"
        self.flush(depth)
        if not tagged:
            add(depth, f"s = o{level}.unknown_tags", section)
            add(depth, f"a{self.nesting}(tagged_fields((), s) if s else ZERO)", section)
            return
        known = f"t{level}"
        present = " or ".join(differs(field, f"o{level}.{field.name}") for field in tagged)
        add(depth, f"if not ({present} or o{level}.unknown_tags): a{self.nesting}(ZERO)", section)
        add(depth, "else:", section)
        depth += 1
        add(depth, f"{known} = []", section)
        for field in tagged:
            name = f"{path}{field.name}"
            add(depth, f"if {differs(field, f'o{level}.{field.name}')}:", name)
            self.nesting += 1
            pieces = f"p{self.nesting}"
            add(depth + 1, f"{pieces} = []; a{self.nesting} = {pieces}.append", name)
            self.field(field, depth + 1, level, name)
            self.flush(depth + 1)
            add(depth + 1, f"{known}.append(({field.tag}, join({pieces})))", name)
            self.nesting -= 1
        add(depth, f"a{self.nesting}(tagged_fields({known}, o{level}.unknown_tags))", section)

    def length(self, length: str, old_letter: str, varints: str, depth: int, path: str) -> None:
        if self.flexible:
            self.flush(depth)
            self.source.add(depth, f"a{self.nesting}({varints}[{length}])", path)
        else:
            self.pending.append((length, old_letter, path))
            self.flush(depth)

    def flush(self, depth: int) -> None:
        if not self.pending:
            return
        values, letters, paths = zip(*self.pending, strict=True)
        self.pending = []
        path = paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
        write = self.source.struct(">" + "".join(letters), lambda layout: struct.Struct(layout).pack)
        self.source.add(depth, f"a{self.nesting}({write}({', '.join(values)}))", path)


def differs(field: Field, value: str) -> str:
    """An expression that is true when the field is not at its default; for an array, when it is not empty."""
    if field.default is None:
        return f"{value} is not None"
    if field.default in (FRESH, "", b"", 0):
        return value
    return f"{value} != {'ZERO_UUID' if field.default == ZERO_UUID else repr(field.default)}"


def _what(error: Exception) -> str:
    if isinstance(error, writing.Unwritable):
        return str(error)
    return f"cannot be written ({error})"
