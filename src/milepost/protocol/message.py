"""The classes of messages and of the structs inside them: made from the schema, one slot per field, whatever the version.

A decoded message has in its slots what was on the wire. Reading a field that was not (another version's, or a tagged field left
out) gives its default. A message to be sent is made with keywords: `HeartbeatResponse(error_code=27)`; the rest are defaults.

`unknown_tags` holds the tagged fields nobody here knows as they came (tag, size, content; one after the other), and they are
written again with the message. It is one slice of the frame however many they are: an object for each would let two bytes of a
hostile frame cost a hundred of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from milepost.protocol.schema import FRESH, Struct

_LEFT_OUT: Any = ()  # stands for a default that is made anew, in signatures, where None may be a value


class Message:
    __slots__ = ("unknown_tags",)
    _schema: Struct
    _defaults: dict[str, Any]
    _fresh: dict[str, Callable[[], Any]]
    """How to make a default that is `FRESH`."""
    unknown_tags: bytes

    def __init__(self, **fields: Any) -> None:
        # Replaced by one with the fields as its parameters when the class is first called: decoding calls none, and
        # compiling them all would cost more than compiling the decoder.
        cls = type(self)
        cls.__init__ = _make_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **fields)

    def __getattr__(self, name: str) -> Any:
        """A slot that was never filled."""
        try:
            value = self._defaults[name]
        except KeyError:
            raise AttributeError(f"{self._schema.name} has no field {name!r}; it has {', '.join(self._defaults)}") from None
        if value is FRESH:
            value = self._fresh[name]()
        setattr(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._defaults)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Without what is at its default."""
        values = ((name, getattr(self, name), default) for name, default in self._defaults.items())
        shown = [f"{name}={value!r}" for name, value, default in values if value != ([] if default is FRESH else default)]
        return f"{self._schema.name}({', '.join(shown)})"


def message_class(schema: Struct) -> type[Message]:
    """The class of a message, with those of its structs inside it."""
    defaults = {field.name: field.default for field in schema.fields}
    members: dict[str, Any] = {
        "__slots__": tuple(defaults),
        "__module__": "milepost.protocol.messages",
        "__qualname__": schema.name,
        "_schema": schema,
        "_defaults": {**defaults, "unknown_tags": b""},
    }
    fresh: dict[str, Callable[[], Any]] = {}
    for field in schema.fields:
        if field.struct is not None:
            members[field.struct.class_name] = fresh[field.name] = message_class(field.struct)
        if field.array:
            fresh[field.name] = list
    members["_fresh"] = fresh
    return type(schema.class_name, (Message,), members)


def _make_init(cls: type[Message]) -> Any:
    """`def __init__(self, *, error_code=0, topics=_LEFT_OUT): self.error_code = error_code; ...`"""
    parameters, assignments = [], []
    namespace: dict[str, Any] = {"_LEFT_OUT": _LEFT_OUT}
    for name, default in cls._defaults.items():
        if default is FRESH:
            namespace[f"make_{name}"] = cls._fresh[name]
            parameters.append(f"{name}=_LEFT_OUT")
            assignments.append(f"    self.{name} = make_{name}() if {name} is _LEFT_OUT else {name}")
        else:
            parameters.append(f"{name}={default!r}")
            assignments.append(f"    self.{name} = {name}")
    exec("\n".join([f"def __init__(self, *, {', '.join(parameters)}):", *assignments]), namespace)
    init = namespace["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
