"""Writes `messages.pyi`: `python -m milepost.protocol.stubs > src/milepost/protocol/messages.pyi`.

The classes of messages are made while the program runs; type checkers and editors read about them there. A field is optional
when it may be null in any version.
"""

from __future__ import annotations

from collections.abc import Iterator

from milepost.protocol import generated
from milepost.protocol.apis import APIS
from milepost.protocol.schema import Field, Struct

HEAD = '''\
"""Written by `python -m milepost.protocol.stubs`; the schemas are in `milepost/protocol/tables`."""

from typing import Any

from typing_extensions import dataclass_transform

from milepost.protocol.message import Message

@dataclass_transform(kw_only_default=True)
class _Base(Message):
    unknown_tags: bytes = ...
'''
PYTHON_TYPES = {"bool": "bool", "float64": "float", "string": "str", "bytes": "bytes", "uuid": "bytes", "records": "Any"}


def stub() -> str:
    classes = ("\n".join(class_lines(schema, "")) for schema in schemas())
    return "\n".join([HEAD, "\n\n".join(classes), ""])


def schemas() -> Iterator[Struct]:
    for api in APIS:
        for kind in ("Request", "Response"):
            yield generated.class_named(api.name + kind)._schema


def class_lines(schema: Struct, indent: str) -> Iterator[str]:
    yield f"{indent}class {schema.class_name}(_Base):"
    inner = indent + "    "
    for struct in schema.structs():
        yield from class_lines(struct, inner)
        yield ""
    for field in schema.fields:
        yield f"{inner}{field.name}: {annotation(field)} = ..."
    if not schema.fields:
        yield f"{inner}..."


def annotation(field: Field) -> str:
    name = field.struct.class_name if field.struct is not None else PYTHON_TYPES.get(field.type, "int")
    if field.array:
        name = f"list[{name}]"
    optional = field.nullable != (0, -1) or field.default is None
    return f"{name} | None" if optional and name != "Any" else name


if __name__ == "__main__":
    print(stub(), end="")
