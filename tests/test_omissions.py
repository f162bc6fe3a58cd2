"""docs/omissions.md names every API that is not served, and none that is."""

from __future__ import annotations

import re
from pathlib import Path

from milepost.broker.dispatch import served_apis
from milepost.protocol.apis import BY_KEY

PAGE = Path(__file__).parents[1] / "docs" / "omissions.md"


def named_in_the_table() -> set[tuple[int, str]]:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d", line)]
    return {(int(key), name) for row in rows for key, name in re.findall(r"\b(\d+) ([A-Z]\w+)", row.split("|")[1])}


def test_page_names_what_is_not_served_and_nothing_else():
    served = served_apis()
    assert named_in_the_table() == {(api.key, api.name) for api in BY_KEY.values() if api.key not in served}
