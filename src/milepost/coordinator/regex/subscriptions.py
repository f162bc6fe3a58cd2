"""Which topics a regular expression of a consumer stands for.

The pattern has RE2's syntax (see `re2_syntax`) and has to match the whole name of a topic; internal topics are topics like others.

Everything happens on the thread that serves everybody, so neither making a program of a pattern nor matching may take long, whatever
the pattern. Python's `re` can take for ever on a short one. Here

    compile   the tree is walked as often as its repetitions say. How often that is is counted first, also where nothing comes of it, as
              in `(){1000}`; above MAX_ROUNDS the pattern is refused
    match     all places in the program where a match could be are followed through the name at once, so the work for one character is at
              most the length of the program. What followed from the same places and the same character is remembered. The work for all
              names is limited, and is done in pieces: `resolving` yields between them
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from milepost.coordinator.interfaces import Work
from milepost.coordinator.regex.re2_syntax import (
    WORD,
    Alternatives,
    Assertion,
    Characters,
    Node,
    Parser,
    RegularExpressionError,
    Repeat,
    Sequence,
)

MAX_ROUNDS = 10_000
STEPS_AT_LEAST = 200_000
STEPS_PER_NAME = 500
STEPS_PER_CHARACTER = 10
STEPS_AT_ONCE = 5_000
"""About a millisecond."""
REMEMBERED_PLACES = 10_000
PATTERNS_KEPT = 10

Places = frozenset[int]
Move = tuple[Places, str, str]
"""Where a match could be, what kind of character is behind it (none at the start), and the character in front (none at the end)."""
OF_WORD, OTHER = "w", "-"


@dataclass(slots=True)
class Instruction:
    """Where to go on: after a character of `mask`, when `assertion` holds, or at once to each of `next`."""

    mask: int | None = None
    assertion: str = ""
    next: list[int] = field(default_factory=list)


def rounds(node: Node) -> int:
    """How many nodes are visited when the repetitions are written out."""
    if isinstance(node, Sequence):
        return 1 + sum(map(rounds, node.parts))
    if isinstance(node, Alternatives):
        return 1 + sum(map(rounds, node.choices))
    if isinstance(node, Repeat):
        times = node.least + 1 if node.most is None else node.most
        return 1 + times * (1 + rounds(node.part))
    return 1


@dataclass(slots=True)
class Effort:
    """How much of what may be done for one pattern and its names was done."""

    pattern: str
    names: int
    limit: int
    steps: int = 0
    pause: int = STEPS_AT_ONCE

    def is_time_to_pause(self) -> bool:
        """One more step; RegularExpressionError when it is one too many."""
        self.steps += 1
        if self.steps > self.limit:
            raise RegularExpressionError(
                f"{self.pattern[:100]!r} takes more than {self.limit} steps on {self.names} names; make it simpler"
            )
        if self.steps < self.pause:
            return False
        self.pause = self.steps + STEPS_AT_ONCE
        return True


class Pattern:
    """The program of a pattern: instruction 0 is the end, `start` the beginning."""

    def __init__(self, pattern: str):
        tree = Parser(pattern).parse()
        if rounds(tree) > MAX_ROUNDS:
            raise RegularExpressionError(f"it is longer than {MAX_ROUNDS} instructions when its repetitions are written out")
        self._program = [Instruction()]
        self._start = frozenset({self._compile(tree, 0)})
        self._looks_behind = any(instruction.assertion in ("word", "inside") for instruction in self._program)
        self._moves: dict[Move, Places] = {}
        self._remembered = 0

    def _add(self, instruction: Instruction) -> int:
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

    def matching(self, name: str, effort: Effort) -> Work[bool]:
        """Whether the pattern matches all of the name. A pause after at most STEPS_AT_ONCE steps and those for one character."""
        places, behind = self._start, ""
        looks_behind = self._looks_behind
        for character in (*name, ""):
            move = (places, behind, character)
            found = self._moves.get(move)
            if found is None:
                found = self._move(move, effort)
            places, behind = found, kind_of(character) if looks_behind else OTHER
            if not places:
                break
            if effort.is_time_to_pause():
                yield
        return bool(places)

    def _move(self, move: Move, effort: Effort) -> Places:
        """Where a match could be behind the character; at the end of the name, whether it is one: the end of the program, or nothing."""
        places, behind, ahead = move
        reached = self._reachable(places, behind, ahead)
        effort.steps += len(reached)
        if not ahead:
            found = reached & {0}
        else:
            bit = 1 << ord(ahead) if ahead.isascii() else 0
            program = self._program
            found = frozenset(program[place].next[0] for place in reached if (program[place].mask or 0) & bit)
        if self._remembered > REMEMBERED_PLACES:
            self._moves.clear()
            self._remembered = 0
        self._moves[move] = found
        self._remembered += len(found) + 1
        return found

    def _reachable(self, begin: Places, behind: str, ahead: str) -> Places:
        """The instructions one can get to without a character."""
        seen = set(begin)
        waiting = list(begin)
        while waiting:
            instruction = self._program[waiting.pop()]
            if instruction.mask is not None or (instruction.assertion and not holds(instruction.assertion, behind, ahead)):
                continue
            for place in instruction.next:
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
        return frozenset(seen)


def holds(assertion: str, behind: str, ahead: str) -> bool:
    if assertion == "start":
        return not behind
    if assertion == "end":
        return not ahead
    return ((behind == OF_WORD) != (kind_of(ahead) == OF_WORD)) == (assertion == "word")


def kind_of(character: str) -> str:
    return OF_WORD if character and WORD >> ord(character) & 1 else OTHER


@lru_cache(maxsize=PATTERNS_KEPT)
def compiled(pattern: str) -> Pattern:
    return Pattern(pattern)


def resolving(pattern: str, names: Collection[str]) -> Work[frozenset[str]]:
    """The names the pattern matches; RegularExpressionError when it is not one, or costs too much. A pause after each piece."""
    program = compiled(pattern)
    limit = STEPS_AT_LEAST + STEPS_PER_NAME * len(names) + STEPS_PER_CHARACTER * sum(map(len, names))
    effort = Effort(pattern, len(names), limit)
    found = []
    for name in list(names):
        if (yield from program.matching(name, effort)):
            found.append(name)
        if effort.is_time_to_pause():
            yield
    return frozenset(found)
