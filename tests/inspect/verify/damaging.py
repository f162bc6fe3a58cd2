"""Directories that are damaged, and what `verify` says of them."""

from __future__ import annotations

from pathlib import Path

from milepost.inspect.verify.findings import Report
from milepost.inspect.verify.verify import verify


def sentences(report: Report, directory: Path) -> list[str]:
    return [str(finding).removeprefix(f"{directory}/") for finding in report.findings]


def notes(report: Report, directory: Path) -> list[str]:
    return [str(note).removeprefix(f"{directory}/") for note in report.notes]


CLEAN = "unclean/kafka-3.9.1-killed-after"


def found_in(directory: Path) -> list[str]:
    return sentences(verify(str(directory)), directory)


def change(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)
