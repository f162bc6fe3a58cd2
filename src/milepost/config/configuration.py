"""What LogConfig and BrokerConfig share: a set of properties, parsed together, read as plain attributes.

A configuration is made from Kafka's names (`parse`), from another one (`override`) or from Python's names (the
constructor), and is checked the same way each time, so one that exists is valid. Reading an attribute is a slot
read; everything else here is for the moments when a configuration is made or shown.

Never silent: a name that is no property raises InvalidConfiguration and proposes the nearest name.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from milepost.config.definition import Given, Property, Secret, Value
from milepost.config.unserved import row_of, unkept_promises
from milepost.errors import InvalidConfiguration

C = TypeVar("C", bound="Configuration")


class Configuration:
    """The base of a frozen, slotted dataclass whose fields are made by `declare`."""

    __slots__ = ()

    kind: ClassVar[str] = "property"
    has_promises: ClassVar[bool] = False
    """Whether Kafka has properties of this kind that promise what is not served (`config/unserved`)."""
    is_secret: ClassVar[Callable[[str], bool]] = staticmethod(lambda name: False)
    """Of a name that is no property: whether what is given for it is kept, unread and unseen, in the field `secrets`."""
    aliases: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        for field_name, prop in properties(type(self)).items():
            object.__setattr__(self, field_name, prop.parse(getattr(self, field_name)))
        self.check()

    def check(self) -> None:
        """Rules that need more than one property."""

    @classmethod
    def parse(cls: type[C], given: Mapping[str, object] | None = None) -> C:
        """A configuration from Kafka's names; what is not given has its default."""
        return cls(**cls.fields_of(given or {}))

    def override(self: C, given: Mapping[str, object]) -> C:
        """The same configuration with some properties, by Kafka's names, set anew."""
        return type(self)(**{**self.values(), **self.fields_of(given)})

    def values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def items(self) -> Iterator[tuple[str, Value]]:
        """(Kafka's name, value) of every property, in the order of the class."""
        for field_name, prop in properties(type(self)).items():
            yield prop.name, getattr(self, field_name)

    def changed(self) -> dict[str, Value]:
        """The properties whose value is not their default."""
        return {name: value for name, value in self.items() if value != self.property(name).default}

    @classmethod
    def takes(cls, name: str) -> bool:
        """Whether it is the name of a property, or of a secret."""
        return name in cls.names() or cls.is_secret(name)

    @classmethod
    def read(cls, name: str, value: object) -> Value:
        """What is given for such a name, if it can be."""
        return as_secret(value) if cls.is_secret(name) else cls.property(name).parse(value)

    def get(self, name: str) -> Value:
        """The value of a property by Kafka's name."""
        value: Value = getattr(self, field_name_of(self.property(name).name))
        return value

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(prop.name for prop in properties(cls).values())

    @classmethod
    def property(cls, name: str) -> Property:
        """The definition behind a Kafka name; one that does not exist is an error that proposes the nearest."""
        name = cls.aliases.get(name, name)
        # A Python name is no Kafka name, although turning the dots around would find a field.
        found = properties(cls).get(field_name_of(name)) if "_" not in name else None
        if found is None:
            raise unknown(name, cls.names(), cls.kind)
        return found

    @classmethod
    def is_promise(cls, name: str) -> bool:
        """Whether a name is no property here, and Kafka's promises what is not served."""
        return cls.has_promises and not cls.takes(name) and field_name_of(name) not in properties(cls) and row_of(name) is not None

    @classmethod
    def fields_of(cls, given: Mapping[str, object]) -> dict[str, Any]:
        """Field names and parsed values for Kafka names; an alias wins over the name it stands for."""
        strangers = {name: given[name] for name in given if cls.is_promise(name)}
        if faults := unkept_promises(strangers):
            raise InvalidConfiguration("; ".join(faults) + ".")
        secrets = [name for name in given if cls.is_secret(name)]
        fields: dict[str, Any] = {"secrets": tuple(Given(name, as_secret(given[name])) for name in secrets)} if secrets else {}
        for name in sorted(given.keys() - strangers.keys() - set(secrets), key=lambda name: name in cls.aliases):
            prop = cls.property(name)
            fields[field_name_of(prop.name)] = prop.parse(given[name])
        return fields


def as_secret(value: object) -> Secret:
    return value if isinstance(value, Secret) else Secret(str(value))


def field_name_of(name: str) -> str:
    return name.replace(".", "_")


def properties(cls: type[Configuration]) -> Mapping[str, Property]:
    """Field name → property, in the order of the class."""
    found = KNOWN.get(cls)
    if found is None:
        found = KNOWN[cls] = {
            field.name: Property(field.name.replace("_", "."), *field.metadata["property"], **field.metadata["rules"])
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
            if field.metadata
        }
    return found


KNOWN: dict[type, Mapping[str, Property]] = {}


def unknown(name: str, names: Iterable[str], kind: str) -> InvalidConfiguration:
    near = nearest(name, names)
    return InvalidConfiguration(f"{name!r} is no {kind}: " + (f"did you mean {near}?" if near else "no name is near it."))


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant: environment and Python spellings count as typing mistakes too."""
    dotted = name.strip().lower().replace("_", ".")
    return next(iter(difflib.get_close_matches(dotted, list(names), n=1, cutoff=0.6)), None)
