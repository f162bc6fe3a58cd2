"""RE2's syntax for regular expressions, read into a tree.

    x|y  xy  x* x+ x? x{n} x{n,} x{n,m}, and lazy, which means the same when a whole name has to match
    (x) (?:x) (?P<n>x) (?<n>x) (?ismU-ismU) (?ismU:x)
    .  [a-z] [^a-z] [[:alpha:]]  \\d \\D \\w \\W \\s \\S  \\pL \\p{L} \\P{L} \\p{^L}
    ^ $ \\A \\z \\b \\B  \\Q…\\E  \\x41 \\x{41} \\101 \\n

Refused, as RE2 does: look-around, back-references, possessive and doubled repetition, counts above 1,000.

Topic names are ASCII, so a set of characters is a mask of 128 bits, and a character outside of ASCII is an empty set. Not promised:
that the name of a script in `\\p{…}` is one Unicode knows; all but Latin are taken as empty.
"""

from __future__ import annotations

import re
import string
import unicodedata
from dataclasses import dataclass

ASCII = (1 << 128) - 1
MAX_COUNT = 1000
MAX_DEPTH = 100
MAX_LENGTH = 1000
"""The longest pattern in characters, and the deepest nesting: the tree is walked by recursion."""


class RegularExpressionError(ValueError):
    """Not a pattern of RE2, or too large a one."""


@dataclass(frozen=True, slots=True)
class Characters:
    mask: int


@dataclass(frozen=True, slots=True)
class Assertion:
    kind: str
    """`start`, `end`, `word` (boundary) or `inside` (no boundary)."""


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    choices: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None


Node = Characters | Assertion | Sequence | Alternatives | Repeat


def mask_of(characters: str) -> int:
    mask = 0
    for character in characters:
        if ord(character) < 128:
            mask |= 1 << ord(character)
    return mask


DIGITS = mask_of(string.digits)
WORD = mask_of(string.ascii_letters + string.digits + "_")
SPACE = mask_of("\t\n\f\r ")
NEWLINE = mask_of("\n")
LETTERS = mask_of(string.ascii_letters)
PERL = {"d": DIGITS, "w": WORD, "s": SPACE, "D": ASCII ^ DIGITS, "W": ASCII ^ WORD, "S": ASCII ^ SPACE}
POSIX = {
    "alnum": LETTERS | DIGITS,
    "alpha": LETTERS,
    "ascii": ASCII,
    "blank": mask_of("\t "),
    "cntrl": mask_of("".join(map(chr, (*range(32), 127)))),
    "digit": DIGITS,
    "graph": mask_of("".join(map(chr, range(33, 127)))),
    "lower": mask_of(string.ascii_lowercase),
    "print": mask_of("".join(map(chr, range(32, 127)))),
    "punct": mask_of(string.punctuation),
    "space": SPACE | mask_of("\v"),
    "upper": mask_of(string.ascii_uppercase),
    "word": WORD,
    "xdigit": mask_of(string.hexdigits),
}
CATEGORY = re.compile(r"C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
COUNT = re.compile(r"\{([0-9]{1,9})(,([0-9]{1,9})?)?\}")
GROUP_NAME = re.compile(r"\?P?<([A-Za-z0-9_]+)>")
FLAGS = re.compile(r"\?([imsU]*)(-[imsU]+)?([:)])")


def fold(mask: int) -> int:
    """With both cases of every letter in it."""
    upper, lower = mask & POSIX["upper"], mask & POSIX["lower"]
    return mask | upper << 32 | lower >> 32


def category(name: str) -> int:
    negated = name.startswith("^")
    name = name.removeprefix("^")
    if CATEGORY.fullmatch(name):
        mask = mask_of("".join(c for c in map(chr, range(128)) if unicodedata.category(c).startswith(name)))
    elif re.fullmatch(r"[A-Z][A-Za-z_]{2,}", name):
        mask = {"Any": ASCII, "Latin": LETTERS}.get(name, 0)
    else:
        raise RegularExpressionError(f"invalid character class range: \\p{{{name}}}")
    return ASCII ^ mask if negated else mask


class Parser:
    def __init__(self, pattern: str):
        if len(pattern) > MAX_LENGTH:
            raise RegularExpressionError(f"{len(pattern)} characters, at most {MAX_LENGTH} are taken")
        self.pattern = pattern
        self.position = 0
        self.flags: frozenset[str] = frozenset()
        self.depth = 0
        self.names: set[str] = set()

    def parse(self) -> Node:
        tree = self._alternatives()
        if self.position < len(self.pattern):
            raise self._error("unexpected )")
        return tree

    def _error(self, what: str) -> RegularExpressionError:
        return RegularExpressionError(f"{what} at character {self.position} of {self.pattern[:100]!r}")

    def _rest(self, length: int = 1) -> str:
        return self.pattern[self.position : self.position + length]

    def _take(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def _match(self, what: re.Pattern[str]) -> re.Match[str] | None:
        found = what.match(self.pattern, self.position)
        if found:
            self.position = found.end()
        return found

    def _alternatives(self) -> Node:
        choices = [self._sequence()]
        while self._take("|"):
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else Alternatives(tuple(choices))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._rest() not in ("", "|", ")"):
            if self._take("\\Q"):
                text, _, _ = self.pattern[self.position :].partition("\\E")
                self.position = min(self.position + len(text) + 2, len(self.pattern))
                parts += [self._characters(mask_of(character)) for character in text]
                if not text:
                    continue
            else:
                atom = self._atom()
                if atom is None:
                    continue
                parts.append(atom)
            bounds = self._repetition()
            if bounds is not None:
                parts.append(Repeat(parts.pop(), *bounds))
        return Sequence(tuple(parts))

    def _repetition(self) -> tuple[int, int | None] | None:
        bounds = self._bounds()
        if bounds is None:
            return None
        self._take("?")
        if self._bounds() is not None:
            raise self._error("a repetition cannot be repeated: it ends")
        return bounds

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        found = self._match(COUNT)
        if not found:
            return None  # a brace that counts nothing stands for itself
        least = int(found[1])
        most = least if found[2] is None else None if found[3] is None else int(found[3])
        if least > MAX_COUNT or (most is not None and not least <= most <= MAX_COUNT):
            raise self._error(f"invalid repeat count {found[0]}")
        return least, most

    def _characters(self, mask: int) -> Characters:
        return Characters(fold(mask) if "i" in self.flags else mask)

    def _atom(self) -> Node | None:
        character = self._rest()
        if character in ("*", "+", "?"):
            raise self._error("missing argument to a repetition")
        self.position += 1
        if character == "(":
            return self._group()
        if character == "[":
            return self._characters(self._set())
        if character == ".":
            return Characters(ASCII if "s" in self.flags else ASCII ^ NEWLINE)
        if character in ("^", "$"):
            # Names have no newlines, so that ^ and $ mean the same with and without the flag m.
            return Assertion("start" if character == "^" else "end")
        if character == "\\":
            return self._escape()
        return self._characters(mask_of(character))

    def _group(self) -> Node | None:
        before = self.flags
        if self._rest() == "?":
            name = self._match(GROUP_NAME)
            flags = None if name else self._match(FLAGS)
            if name is not None:
                if name[1] in self.names:
                    raise self._error(f"the group name {name[1]} is there twice, which ends")
                self.names.add(name[1])
            elif flags is None:
                raise self._error("no group of RE2")
            else:
                self.flags = (self.flags | set(flags[1])) - set(flags[2] or "")
                if flags[3] == ")":
                    return None  # they hold until the group around them ends
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} groups in each other")
        inner = self._alternatives()
        self.depth -= 1
        if not self._take(")"):
            raise self._error("missing )")
        self.flags = before
        return inner

    def _escape(self) -> Node:
        letter = self._rest()
        if letter in ("A", "z", "b", "B"):
            self.position += 1
            return Assertion({"A": "start", "z": "end", "b": "word", "B": "inside"}[letter])
        mask = self._shorthand()
        return self._characters(mask_of(self._escaped()) if mask is None else mask)

    def _shorthand(self) -> int | None:
        """A set behind a backslash; None when it is a single character."""
        letter = self._rest()
        if letter in PERL and letter:
            self.position += 1
            return PERL[letter]
        if letter not in ("p", "P"):
            return None
        self.position += 1
        if self._take("{"):
            name, closing, _ = self.pattern[self.position :].partition("}")
            if not closing:
                raise self._error("missing } of a character class")
            self.position += len(name) + 1
        else:
            name = self._rest()
            self.position += 1
        mask = category(name)
        return ASCII ^ mask if letter == "P" else mask

    def _escaped(self) -> str:
        """The character behind a backslash."""
        letter = self._rest()
        self.position += 1
        if letter in CONTROL:
            return CONTROL[letter]
        if letter == "x":
            found = self._match(re.compile(r"\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2})"))
            if found and int(found[1] or found[2], 16) < 0x110000:
                return chr(int(found[1] or found[2], 16))
        elif letter == "0" or (letter in "1234567" and self._rest() in tuple("01234567")):
            octal = self._match(re.compile(r"[0-7]{0,2}"))
            return chr(int(letter + (octal[0] if octal else ""), 8))
        elif letter and not letter.isalnum():
            return letter
        raise self._error(f"invalid escape \\{letter}, which ends")

    def _set(self) -> int:
        negated = self._take("^")
        mask = 0
        is_first = True
        while is_first or self._rest() != "]":
            is_first = False
            if not self._rest():
                raise self._error("missing ]")
            posix = self._match(re.compile(r"\[:(\^?)([a-z]+):\]"))
            if posix:
                if posix[2] not in POSIX:
                    raise self._error(f"invalid character class range {posix[0]}, which ends")
                mask |= ASCII ^ POSIX[posix[2]] if posix[1] else POSIX[posix[2]]
                continue
            if self._rest() == "\\":
                self.position += 1
                shorthand = self._shorthand()
                if shorthand is not None:
                    mask |= shorthand
                    continue
                self.position -= 1
            low = self._set_character()
            high = low
            if self._rest() == "-" and self._rest(2) not in ("-]", "-"):
                self.position += 1
                high = self._set_character()
                if high < low:
                    raise self._error(f"invalid character class range {low}-{high}, which ends")
            for code in range(ord(low), min(ord(high), 127) + 1):
                mask |= 1 << code
        self.position += 1
        mask = fold(mask) if "i" in self.flags else mask
        return ASCII ^ mask if negated else mask

    def _set_character(self) -> str:
        if self._take("\\"):
            return self._escaped()
        character = self._rest()
        if not character:
            raise self._error("missing ]")
        self.position += 1
        return character
