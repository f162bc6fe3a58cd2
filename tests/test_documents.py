"""Every snippet of the README and of docs/ runs: ```python blocks as programs, `milepost …` lines of ```sh blocks as commands.

The blocks of one document run in order, in one empty directory, and Python names last from block to block: a
document is read from the top. A block that is not meant to run is tagged ```text.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAIN = "import sys; from milepost.cli.main import main; sys.exit(main())"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Snippet:
    language: str
    code: str
    line: int


def snippets(document: Path) -> list[Snippet]:
    text = document.read_text()
    return [Snippet(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in BLOCK.finditer(text)]


def commands(code: str) -> list[str]:
    """The `milepost` lines of a shell block, without a prompt; a backslash joins lines as in a shell."""
    lines = (line.removeprefix("$ ").strip() for line in code.replace("\\\n", " ").splitlines())
    return [line for line in lines if line.startswith("milepost ")]


def run(command: str, directory: Path) -> None:
    program = [sys.executable, "-c", MAIN, *shlex.split(command, comments=True)[1:]]
    process = subprocess.run(program, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, f"`{command}` exited {process.returncode}:\n{process.stdout}{process.stderr}"


def run_apart(found: list[Snippet], directory: Path) -> None:
    """In a process of their own: there is one Spark session in a process, and it keeps the settings it began with."""
    program = directory / "document.py"
    program.write_text("\n\n".join(snippet.code for snippet in found))
    process = subprocess.run(
        [sys.executable, program.name], cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, f"{process.stdout}{process.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_snippets_run_from_the_top_of_the_document(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = snippets(document)
    if any("milepost.spark" in snippet.code for snippet in found if snippet.language == "python"):
        run_apart([snippet for snippet in found if snippet.language == "python"], tmp_path)
        return
    names: dict[str, object] = {"__name__": "__main__"}
    for snippet in found:
        if snippet.language == "python":
            # Blank lines in front keep the line numbers of a traceback those of the document.
            exec(compile("\n" * (snippet.line - 1) + snippet.code, str(document), "exec"), names)
        elif snippet.language == "sh":
            for command in commands(snippet.code):
                run(command, tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(document):
    targets = [target for target in LINK.findall(document.read_text()) if not target.startswith(("http", "mailto:"))]
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing
