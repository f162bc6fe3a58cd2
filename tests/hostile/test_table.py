"""The table of attacks (`conftest`) names all of them, and tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROWS = re.findall(r"^    (N-\d\d)  \S.*?  +(\S.*)$", (HERE / "conftest.py").read_text(), re.MULTILINE)


def test_every_attack_has_a_row():
    assert [name for name, _ in ROWS] == [f"N-{number:02}" for number in range(1, 46)]


def test_every_test_of_a_row_exists():
    for name, where in ROWS:
        named = re.match(r"(test_\w+)(?:::(test_\w+(?:, test_\w+)*))?$", where)
        if named is None:
            assert where.startswith(("there ", "tests/")), name
            continue
        source = (HERE / f"{named[1]}.py").read_text()
        assert all(f"def {test}(" in source for test in (named[2] or "").split(", ") if test), name
