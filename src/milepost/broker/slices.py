"""Requests that take long, in slices: between two of them everybody else is served.

A handler may be a generator function. It `yield`s between cheap pieces of work, as often as once per element, and returns its
response; what it calls is reached by `yield from`.

    yield            a good place to stop. While the slice is younger than SLICE_SECONDS the handler goes on at once; then the loop makes
                     a whole pass, with all sockets that are ready and all timers that are due, before the next slice
    yield subscribe  nothing can be done before something has happened elsewhere, an fsync for instance. `subscribe(resume)` is called,
                     and the handler goes on in a pass after `resume` was called, on any thread

The connection stays muted meanwhile, so its answers keep their order; its frame stays as it is. An exception in a later slice is what it
is in the first: logged, and that connection is closed. A connection that is closed ends its generator (GeneratorExit at its `yield`), and
so does the end of the broker: what was half done by then has to be sound. A handler that says `context.goes_on = True` is done to
its end without its client.

Several long requests take turns, a slice each. What they have gathered so far is memory: of those that are longer than FREE_SLICES only
MOST_AT_ONCE go on at a time, in the order in which they came, and none begins to while too many answers wait to be read
(`net/output_budget`). What the controller sends is urgent, and does not wait for them.

The world changes at a `yield`: a topic is deleted, a log closed. Look things up again behind it, or have others wait for their `Turn`
(`milepost/work`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from milepost.broker.ordered_responses import OrderedResponses
from milepost.loop import Loop

if TYPE_CHECKING:
    from milepost.net.output_budget import OutputBudget
    from milepost.net.request import Request

SLICE_SECONDS = 0.002
YOUNG_SECONDS = 0.01
SHORT_SECONDS = 0.0002
"""Requests of many connections come in one pass, and begin in it. When that is no longer young, they begin with a short slice: enough for
those that are small."""
FREE_SLICES = 20
MOST_AT_ONCE = 4

Resume = Callable[[], object]
Subscribe: TypeAlias = Callable[[Resume], object]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Work: TypeAlias = Generator[Any, None, T]
"""What a handler that is a generator function returns, and whatever it calls by `yield from`. It yields None or a `Subscribe`; Any, because
mypy lets a bare `yield` stand for None only in a generator of nothing else."""


class Sliced(Protocol):
    """The request that a work belongs to."""

    is_long: bool
    goes_on: bool
    is_urgent: bool

    @property
    def request(self) -> Request: ...

    @property
    def is_connected(self) -> bool: ...


S = TypeVar("S", bound=Sliced)


class Server(Protocol):
    @property
    def output(self) -> OutputBudget: ...


class SlicingBroker(Protocol):
    """Whose loop the slices take turns on; it is there by the time of the first request."""

    @property
    def loop(self) -> Loop: ...

    @property
    def server(self) -> Server: ...


def called_back(begin: Callable[[Callable[[T], None]], object]) -> Work[T]:
    """What is given to the callback that `begin` gets: at once, or later, and then in a pass of its own."""
    results: list[T] = []
    resumes: list[Resume] = []

    def done(result: T) -> None:
        results.append(result)
        for resume in resumes:
            resume()

    begin(done)
    if not results:
        yield resumes.append
    return results[0]


def gathered(begins: Sequence[Callable[[Callable[[T], None]], object]]) -> Work[list[T]]:
    """What each of them gives to its callback, in their order, as soon as all of them have."""
    results: list[list[T]] = []
    resumes: list[Resume] = []

    def done(parts: list[T]) -> None:
        results.append(parts)
        for resume in resumes:
            resume()

    ordered = OrderedResponses[T](len(begins), done)
    for place, begin in enumerate(begins):
        begin(partial(ordered.put, place))
        yield
    if not results:
        yield resumes.append
    return results[0]


class Slices(Generic[S]):
    def __init__(self, broker: SlicingBroker, failed: Callable[[S], object]):
        """`failed` is called, inside of the `except`, with the request whose work raised."""
        self._broker = broker
        self._failed = failed
        self._suspended: dict[Work[None], S] = {}
        # How many slices each of them has had; those that are longest are few at a time, and others of their kind wait for them.
        self._slices: Counter[Work[None]] = Counter()
        self._going_on: set[Work[None]] = set()
        self._held: deque[Work[None]] = deque()
        self.longest = 0.0

    @property
    def suspended(self) -> int:
        """How many requests wait for their next slice."""
        return len(self._suspended)

    def run(self, work: Work[None], context: S) -> None:
        """Do the work of a request, as far as one slice goes, and see to the rest of it."""
        loop = self._broker.loop
        seconds = SLICE_SECONDS if loop.monotonic() < loop.now + YOUNG_SECONDS else SHORT_SECONDS
        if not self._is_done_after_slice(work, context, seconds):
            self._suspended[work] = context
            context.is_long = True
            context.request.keep_frame()

    def _go_on(self, work: Work[None]) -> None:
        context = self._suspended.get(work)
        if context is None:
            return  # the broker has ended
        if not (context.is_connected or context.goes_on):
            work.close()
        elif not self._is_done_after_slice(work, context):
            return
        del self._suspended[work], self._slices[work]
        self._leave(work)

    def _put_off(self, work: Work[None]) -> None:
        """Until the next pass, or until it is its turn."""
        self._slices[work] += 1
        if self._slices[work] >= FREE_SLICES and work not in self._going_on and not self._suspended[work].is_urgent:
            if len(self._going_on) >= MOST_AT_ONCE or self._output.is_full:
                self._held.append(work)
                if not self._going_on:
                    self._output.when_free(self._next_of_held)
                return
            self._going_on.add(work)
        self._broker.loop.next_pass(partial(self._go_on, work))

    def _leave(self, work: Work[None]) -> None:
        """It has ended, or waits for something else."""
        self._going_on.discard(work)
        self._next_of_held()

    def _next_of_held(self) -> None:
        while self._held and len(self._going_on) < MOST_AT_ONCE:
            if self._output.is_full:
                self._output.when_free(self._next_of_held)
                return
            work = self._held.popleft()
            self._going_on.add(work)
            self._broker.loop.next_pass(partial(self._go_on, work))

    @property
    def _output(self) -> OutputBudget:
        return self._broker.server.output

    def _is_done_after_slice(self, work: Work[None], context: S, seconds: float = SLICE_SECONDS) -> bool:
        loop = self._broker.loop
        monotonic = loop.monotonic
        start = now = monotonic()
        until = start + seconds
        try:
            for subscribe in work:
                now = monotonic()
                if subscribe is not None:
                    self._leave(work)
                    subscribe(partial(loop.next_pass, partial(self._go_on, work)))
                    return False
                if now >= until:
                    self._put_off(work)
                    return False
        except Exception:
            self._failed(context)
        finally:
            self.longest = max(self.longest, now - start)
        return True

    def close(self) -> None:
        """End what is suspended: it will not be answered any more."""
        while self._suspended:
            self._suspended.popitem()[0].close()
        self._held.clear()


def collected(elements: Iterable[T]) -> Work[list[T]]:
    """A list of what is cheap to make, each when it is its turn."""
    found = []
    for element in elements:
        found.append(element)
        yield
    return found


def keyed(elements: Iterable[T], key: Callable[[T], K]) -> Work[dict[K, T]]:
    """Elements by their keys, of equal ones the last, in the order of the first; each when it is its turn."""
    found = {}
    for element in elements:
        found[key(element)] = element
        yield
    return found
