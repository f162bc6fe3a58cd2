"""Makes events to play with: visits of a site by a few hundred people over six hours, as lines of JSON. The same every time."""

from __future__ import annotations

import json
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

PAGES = ("/home", "/search", "/cart", "/checkout", *(f"/product/{number}" for number in range(40)))
START = datetime(2018, 5, 15, 6, tzinfo=UTC)


def events(count: int, seed: int = 1) -> list[dict[str, str]]:
    source = random.Random(seed)
    found = []
    for _ in range(count):
        user = f"user-{int(source.paretovariate(1.2)) % 400}"
        at = START + timedelta(seconds=source.triangular(0, 6 * 3600, 4 * 3600))
        found.append({"user": user, "url": source.choice(PAGES), "at": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
    return sorted(found, key=lambda event: event["at"])


def write(directory: Path, count: int = 20_000, files: int = 4) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    made = events(count)
    for number in range(files):
        lines = [json.dumps(event) for event in made[number * count // files : (number + 1) * count // files]]
        (directory / f"events-{number}.json").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "events"))
