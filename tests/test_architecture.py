"""docs/architecture.md speaks of this source: its layers are those that import-linter checks, its packages and files are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "milepost"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAME = re.compile(r"`\(?(\w+)\)?`")


def contract() -> list[list[str]]:
    """The layers of the import-linter contract, from the top, without those that are not there yet."""
    (layers,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = [[name.strip(" ()") for name in layer.split("|")] for layer in layers["layers"]]
    present = [[name for name in layer if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()] for layer in named]
    return [layer for layer in present if layer]


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_layers_are_those_of_the_contract_from_the_top():
    rows = [line.split("|")[1] for line in section("The layers").splitlines() if line.startswith("| `")]
    assert [NAME.findall(row) for row in rows] == contract()


def test_first_rule_of_contributing_names_all_layers_from_the_top():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rule = text.split("\n1. Arrows point one way.")[1].split("\n2. ")[0]
    assert NAME.findall(rule) == [name for layer in contract() for name in layer]


def test_every_package_is_on_the_page():
    packages = [path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    assert [package for package in sorted(packages) if f"`{package}`" not in PAGE] == []


def test_every_file_and_folder_named_on_the_page_exists():
    named = re.findall(r"`(\w[\w/]*/\w+(?:\.py)?|\w+\.py)`", PAGE)
    assert "segment/time_index.py" in named and "log/cleaning" in named
    assert [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()] == []


def test_readme_and_index_and_contributing_lead_to_the_page():
    assert "](docs/architecture.md" in (ROOT / "README.md").read_text()
    assert "](docs/architecture.md" in (ROOT / "CONTRIBUTING.md").read_text()
    assert "](architecture.md" in (ROOT / "docs" / "index.md").read_text()
