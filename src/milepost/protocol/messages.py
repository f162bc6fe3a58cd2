"""Every message as a class, made when it is first asked for: `from milepost.protocol.messages import ProduceRequest`.

`messages.pyi` beside this file says to type checkers and editors what the classes hold; it is written by
`python -m milepost.protocol.stubs`, and a test compares the two.
"""

from __future__ import annotations

from milepost.protocol import generated
from milepost.protocol.message import Message


def __getattr__(name: str) -> type[Message]:
    try:
        cls = generated.class_named(name)
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no message {name!r}") from None
    globals()[name] = cls
    return cls
