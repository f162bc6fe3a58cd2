"""`python -m tests.clients.compatibility RECORD PAGE`: write the page from the record; ends with 1 when a test in it has failed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.clients.compatibility.columns import columns
from tests.clients.compatibility.page import page

if __name__ == "__main__":
    record, target = map(Path, sys.argv[1:])
    target.write_text(page(record))
    failed = [
        f"{column.test_file}: {line.test}" for column in columns(record) for line in column.outcomes if line.outcome != "passed"
    ]
    print("\n".join([f"{target} is written.", *dict.fromkeys(failed)]))
    sys.exit(bool(failed))
