"""`@frozen_dataclass`: a frozen, slotted dataclass whose methods are made when they are first needed.

`dataclass` writes and compiles six methods for every class it is given, half a millisecond each time. A broker that starts
defines a hundred values and makes a dozen of them, so that most of that time, a third of the start, is for nothing. Here a class
gets its slots at once, and the rest from `dataclass` itself: `__init__` with the first instance; comparing, hashing and showing
when somebody does so. From then on it is what `@dataclass(frozen=True, slots=True)` makes of it.

Not for classes that need other options, `__post_init__` excepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Callable[[type], type]:
        return lambda cls: cls


T = TypeVar("T")

# What `dataclass` is told to make, by the method whose first call asks for it.
INIT = {"init": True, "repr": False, "eq": False}
REST = {"init": False, "repr": True, "eq": True}
METHODS = {"__init__": INIT, "__repr__": REST, "__eq__": REST, "__hash__": REST}
DEFINITION = "__frozen_definition__"


@dataclass_transform(frozen_default=True)
def frozen_dataclass(cls: type[T]) -> type[T]:
    own = {name: text for name, text in cls.__annotations__.items() if not text.startswith("ClassVar")}
    namespace = {name: held for name, held in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
    members = {name: held for name, held in namespace.items() if name not in own}
    inherited = tuple(name for base in cls.__mro__[-1:0:-1] for name in base.__dict__.get("__slots__", ()))
    members |= {"__slots__": tuple(name for name in own if name not in inherited), DEFINITION: (cls.__bases__, namespace)}
    members["__match_args__"] = tuple(dict.fromkeys((*inherited, *own)))
    members |= {name: _first_call(name) for name in METHODS if name not in namespace}
    members |= {"__setattr__": _refuse, "__delattr__": _refuse, "__reduce__": _reduce, "__dataclass_fields__": Fields()}
    made: Any = type(cls.__name__, cls.__bases__, members)
    made.__qualname__ = cls.__qualname__
    return cast("type[T]", made)


def _first_call(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        owner = next(base for base in type(self).__mro__ if name in base.__dict__)
        _complete(owner, METHODS[name])
        return getattr(self, name)(*arguments, **named)

    return method


def _complete(cls: type, options: dict[str, bool]) -> None:
    """Have `dataclass` make methods for a class of the same definition, and take them over."""
    import dataclasses

    bases, namespace = cls.__dict__[DEFINITION]
    twin: Any = dataclasses.dataclass(frozen=True, **options)(type(cls.__name__, bases, dict(namespace)))
    for name, wanted in METHODS.items():
        if wanted is options and name in twin.__dict__ and name not in namespace:
            setattr(cls, name, twin.__dict__[name])
    cls.__dataclass_params__ = twin.__dataclass_params__  # type: ignore[attr-defined]


class Fields:
    """For `dataclasses.fields`, `replace` and `asdict`."""

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        bases, namespace = owner.__dict__[DEFINITION]
        twin: Any = dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)(
            type(owner.__name__, bases, dict(namespace))
        )
        found = twin.__dict__["__dataclass_fields__"]
        owner.__dataclass_fields__ = found  # type: ignore[attr-defined]
        return found


def _refuse(self: object, name: str, new: object = None) -> None:
    import dataclasses

    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), tuple(getattr(self, name) for name in self.__match_args__)
