"""`milepost` with its arguments, after the name of a file that gets a line for every API and version that clients asked for.

    python asked.py REQUESTS serve --port 0

The line also says what the client calls itself in ApiVersions. The file is written at the end of the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from milepost.broker.dispatch import Dispatcher
from milepost.cli.main import main
from milepost.net.request import Request

Asked = tuple[str, str, int, int]


def listen() -> set[Asked]:
    """Every request from now on, in every dispatcher of this process."""
    asked: set[Asked] = set()
    handle = Dispatcher.handle

    def handle_and_remember(dispatcher: Dispatcher, request: Request) -> None:
        key, version = int.from_bytes(request.frame[:2], "big"), int.from_bytes(request.frame[2:4], "big")
        handle(dispatcher, request)
        # After the answer: the first request of a connection is the one that says who it is.
        software = request.channel.state.get("software")
        name, of = software if isinstance(software, tuple) else ("", "")
        asked.add((name, of, key, version))

    Dispatcher.handle = handle_and_remember  # type: ignore[assignment, method-assign]
    return asked


def write(asked: set[Asked], path: Path) -> None:
    fields = ("software", "software_version", "key", "version")
    path.write_text("".join(json.dumps(dict(zip(fields, line, strict=True))) + "\n" for line in sorted(asked)))


if __name__ == "__main__":
    target = Path(sys.argv.pop(1))
    heard = listen()
    try:
        main(prog_name="milepost")
    finally:
        write(heard, target)
