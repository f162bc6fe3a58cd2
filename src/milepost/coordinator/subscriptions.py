"""Which topics a regular expression of a consumer stands for.

The pattern has RE2's syntax (see `re2_syntax`) and has to match the whole name of a topic; internal topics are topics like others.

Everything happens on the thread that serves everybody, so matching must not take long, whatever the pattern. Python's `re` can take
for ever on a short one. Here the pattern becomes a program, and all places in it where a match could be are followed through the
name at once: the work for one character is at most the length of the program, and the work for all topics is limited.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from milepost.coordinator.re2_syntax import (
    WORD,
    Alternatives,
    Assertion,
    Characters,
    Node,
    Parser,
    RegularExpressionError,
    Repeat,
)

MAX_PROGRAM = 10_000
STEPS_AT_LEAST = 200_000
STEPS_PER_TOPIC = 2_000


@dataclass(slots=True)
class Instruction:
    """Where to go on: after a character of `mask`, when `assertion` holds, or at once to each of `next`."""

    mask: int | None = None
    assertion: str = ""
    next: list[int] = field(default_factory=list)


class Pattern:
    """The program of a pattern: instruction 0 is the end, `start` the beginning."""

    def __init__(self, pattern: str):
        self._program = [Instruction()]
        self._start = self._compile(Parser(pattern).parse(), 0)
        self.steps = 0

    def _add(self, instruction: Instruction) -> int:
        if len(self._program) >= MAX_PROGRAM:
            raise RegularExpressionError(f"more than {MAX_PROGRAM} instructions when its repetitions are written out")
        self._program.append(instruction)
        return len(self._program) - 1

    def _compile(self, node: Node, then: int) -> int:
        """Instructions that match `node` and go on with `then`; where they begin."""
        if isinstance(node, Characters):
            return self._add(Instruction(mask=node.mask, next=[then]))
        if isinstance(node, Assertion):
            return self._add(Instruction(assertion=node.kind, next=[then]))
        if isinstance(node, Alternatives):
            return self._add(Instruction(next=[self._compile(choice, then) for choice in node.choices]))
        if isinstance(node, Repeat):
            return self._repeat(node, then)
        for part in reversed(node.parts):
            then = self._compile(part, then)
        return then

    def _repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._add(Instruction())
            self._program[loop].next = [self._compile(node.part, loop), then]
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add(Instruction(next=[self._compile(node.part, then), end]))
        for _ in range(node.least):
            then = self._compile(node.part, then)
        return then

    def matches(self, name: str) -> bool:
        """Whether the pattern matches all of the name."""
        places = self._reachable([self._start], name, 0)
        for position, character in enumerate(name, 1):
            bit = 1 << ord(character)
            after = [self._program[place].next[0] for place in places if (self._program[place].mask or 0) & bit]
            if not after:
                return False
            places = self._reachable(after, name, position)
        return 0 in places

    def _reachable(self, begin: list[int], name: str, position: int) -> set[int]:
        """The instructions one can get to without a character."""
        seen = set(begin)
        waiting = begin
        while waiting:
            instruction = self._program[waiting.pop()]
            if instruction.mask is not None or (instruction.assertion and not holds(instruction.assertion, name, position)):
                continue
            for place in instruction.next:
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
        self.steps += len(seen)
        return seen


def holds(assertion: str, name: str, position: int) -> bool:
    if assertion == "start":
        return position == 0
    if assertion == "end":
        return position == len(name)
    before = position > 0 and bool(WORD >> ord(name[position - 1]) & 1)
    behind = position < len(name) and bool(WORD >> ord(name[position]) & 1)
    return (before != behind) == (assertion == "word")


@lru_cache(maxsize=100)
def compiled(pattern: str) -> Pattern:
    return Pattern(pattern)


def resolve(pattern: str, topics: Collection[str]) -> frozenset[str]:
    """The topics the pattern matches; RegularExpressionError when it is not one, or costs too much."""
    program = compiled(pattern)
    program.steps = 0
    limit = STEPS_AT_LEAST + STEPS_PER_TOPIC * len(topics)
    found = []
    for name in topics:
        if program.matches(name):
            found.append(name)
        if program.steps > limit:
            raise RegularExpressionError(
                f"{pattern[:100]!r} takes more than {limit} steps on {len(topics)} topics; make it simpler"
            )
    return frozenset(found)
