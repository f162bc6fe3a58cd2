"""JSON as Kafka's dump tool prints it: no spaces, non-ASCII as it is, control characters as \\u with capital hex digits."""

from __future__ import annotations

import json
import re
from typing import Any

# Takes each escape whole, so that the "u001f" behind an escaped backslash is not mistaken for one.
ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


def dump_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return ESCAPE.sub(lambda match: f"\\u{match[1][1:].upper()}" if len(match[1]) > 1 else match[0], text)
