"""How a request asks the authorizer, and what becomes of it: a guard stands before a handler, which knows of none of this.

    WholeRequest   one resource, and one error at the top of the answer
    EachElement    a resource in each element of a list: those that are denied are answered, the handler gets the rest
    Listed         an answer that lists what there is: what the client may not see is left out, without a word
    Both           one guard before another
    SinceVersion   what the request looks like depends on its version

What is asked is a tuple of accesses, one of which is enough; the denial is that of the last one. An empty tuple asks nothing: what a
topic id that is not known stands for is for the handler to answer, and says nothing of topics that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from milepost.broker.authorizer import Access, Authorizer, Denial, denial_of

if TYPE_CHECKING:
    from milepost.broker.context import Context

Handler = Callable[..., Any]
Accesses = tuple[Access, ...]
Guarded = Generator[Any, None, Any]
"""Work (`slices`) that ends with a response, or with None where it is answered later."""
Proceed = Callable[[], Guarded]
"""What a guard stands before."""


class Rights(NamedTuple):
    """Those of one requester."""

    context: Context
    authorizer: Authorizer

    def allows(self, *accesses: Access) -> bool:
        """Whether one of these is allowed. What is asked like this is left out or masked, so a denial is not worth a line in the log."""
        return any(self.authorizer.denies(access, self.context) is None for access in accesses)

    def denial(self, accesses: Accesses) -> Denial | None:
        if not accesses or (len(accesses) > 1 and self.allows(*accesses[:-1])):
            return None
        return denial_of(accesses[-1], self.context, self.authorizer)


class Guard(Protocol):
    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        """The answer: a denial, or what comes of going on with what is left of the request."""


def guarded(handler: Handler, guard: Guard, authorizer: Authorizer) -> Handler:
    def handle(request: Any, context: Context) -> Guarded:
        return guard.handling(request, Rights(context, authorizer), lambda: running(handler, request, context))

    return handle


def running(handler: Handler, request: Any, context: Context) -> Guarded:
    response = handler(request, context)
    if isinstance(response, GeneratorType):
        response = yield from response
    return response


class WholeRequest:
    def __init__(self, accesses: Callable[[Any], Accesses], answer: Callable[[Any, Denial], Any]):
        self._accesses = accesses
        self._answer = answer

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        denial = rights.denial(self._accesses(request))
        if denial is not None:
            return self._answer(request, denial)
        return (yield from proceed())


class EachElement:
    def __init__(
        self,
        field: str,
        accesses: Callable[[Any, Context], Accesses],
        response: Callable[[], Any],
        response_field: str,
        part: Callable[[Any, Denial], Any],
        key: Callable[[Any], object] | None = None,
    ):
        """`key`: what is answered once, however often it is named."""
        self._field = field
        self._accesses = accesses
        self._response = response
        self._response_field = response_field
        self._part = part
        self._key = key

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        elements: Sequence[Any] = getattr(request, self._field)
        denied: dict[object, Any] = {}
        allowed = []
        for number, element in enumerate(elements):
            denial = rights.denial(self._accesses(element, rights.context))
            if denial is None:
                allowed.append(element)
            else:
                denied[number if self._key is None else self._key(element)] = self._part(element, denial)
            yield
        if not denied:
            return (yield from proceed())
        parts = list(denied.values())
        if allowed:
            setattr(request, self._field, allowed)
            # It is added to the answer, which may come later.
            rights.context.refused = self._response_field, parts
            return (yield from proceed())
        response = self._response()
        setattr(response, self._response_field, parts)
        return self.answer(request, response, rights.context)

    def answer(self, request: Any, response: Any, context: Context) -> Any:
        """Of a request with nothing but what is denied."""
        return response


class Listed:
    def __init__(self, field: str, accesses: Callable[[Any], Accesses]):
        self._field = field
        self._accesses = accesses

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        response = yield from proceed()
        seen = []
        for each in getattr(response, self._field):
            if rights.allows(*self._accesses(each)):
                seen.append(each)
            yield
        setattr(response, self._field, seen)
        return response


class Both:
    def __init__(self, outer: Guard, inner: Guard):
        self._outer = outer
        self._inner = inner

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        return self._outer.handling(request, rights, lambda: self._inner.handling(request, rights, proceed))


class SinceVersion:
    def __init__(self, version: int, guard: Guard, before: Guard):
        self._version = version
        self._guard = guard
        self._before = before

    def handling(self, request: Any, rights: Rights, proceed: Proceed) -> Guarded:
        guard = self._guard if rights.context.version >= self._version else self._before
        return guard.handling(request, rights, proceed)
