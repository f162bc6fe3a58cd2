"""The rules of the house, checked: who may touch files, who imports whom, what a module says first, what `import milepost` costs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import milepost
from milepost import _build
from tests.import_circles import circles, import_graph

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "milepost"
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_LINES = 400
# C functions call each other directly only within one module, so a compiled one may grow further.
MAX_LINES_COMPILED = 800


def words(text: str) -> set[str]:
    return set(text.split())


# Names that reach a disk, wherever they come from. Reading `os.environ` or `os.getpid()` is not among them.
OS_FILE_FUNCTIONS = words("""
    access chdir chmod chown close copy_file_range dup dup2 fchmod fchown fdatasync fdopen fstat fstatvfs fsync ftruncate
    fwalk lchown link listdir lockf lseek lstat makedirs mkdir mkfifo mknod open pread preadv pwrite pwritev read readlink readv
    remove removedirs rename renames replace rmdir scandir sendfile stat statvfs symlink sync truncate unlink utime walk write
    writev
""")
PATH_FILE_FUNCTIONS = words("exists getatime getctime getmtime getsize isdir isfile islink ismount lexists realpath samefile")
PATHLIB_METHODS = words("""
    chmod exists expanduser glob hardlink_to is_dir is_file is_mount is_symlink iterdir lchmod lstat mkdir open read_bytes
    read_text readlink rename resolve rglob rmdir samefile stat symlink_to touch unlink write_bytes write_text
""")
FILE_MODULES = {"fcntl", "fileinput", "glob", "shutil", "tempfile"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def tracked_files() -> list[Path]:
    """The files that git has or would take; without git, everything outside hidden and built directories."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        ).stdout.decode()
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        skipped = {".venv", ".git", "build", "dist", "__pycache__"}
        found = [path for path in ROOT.rglob("*") if not skipped & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in found if path.is_file())


def file_accesses(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, what) for everything in a module that goes to the disk by itself."""
    paths = names_bound_to_pathlib(tree)
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, f"import {name.name}") for name in node.names if name.name.split(".")[0] in FILE_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            origin = (node.module or "").split(".")[0]
            banned = {"os": OS_FILE_FUNCTIONS, "io": {"open", "FileIO"}}.get(origin, set())
            banned = banned | (PATH_FILE_FUNCTIONS if node.module == "os.path" else set())
            found += [
                (node.lineno, f"from {node.module} import {name.name}")
                for name in node.names
                if origin in FILE_MODULES or name.name in banned
            ]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"open", "mmap", "mmap.mmap"}:
            found.append((node.lineno, f"{ast.unparse(node.func)}()"))
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if (
                (owner == "os" and node.attr in OS_FILE_FUNCTIONS)
                or (owner == "os.path" and node.attr in PATH_FILE_FUNCTIONS)
                or (owner == "io" and node.attr in {"open", "FileIO"})
                or (node.attr in PATHLIB_METHODS and is_path(node.value, paths))
            ):
                found.append((node.lineno, f"{owner}.{node.attr}"))
    return found


def names_bound_to_pathlib(tree: ast.Module) -> set[str]:
    """Variables, parameters and attributes that the module says are paths, by annotation or by assignment."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation and re.search(r"\bPath\b", ast.unparse(node.annotation)):
            names.add(node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
        elif isinstance(node, ast.Assign) and is_path(node.value, names):
            names.update(ast.unparse(target) for target in node.targets)
    return names


def is_path(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in {"Path", "pathlib.Path", "Path.cwd", "Path.home"}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return is_path(node.left, names)
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        return is_path(node.value, names)
    return ast.unparse(node) in names


@pytest.mark.parametrize("path", [path for path in MODULES if "files" not in path.relative_to(SOURCE).parts[:1]], ids=relative)
def test_only_the_files_package_touches_the_disk(path):
    found = file_accesses(ast.parse(path.read_text()))
    assert not found, "\n".join(
        f"{relative(path)}:{line}: {what} goes around milepost.files; crash tests cannot see it. Use milepost.files instead."
        for line, what in found
    )


@pytest.mark.parametrize(
    "code",
    [
        "open('a')",
        "import io; io.open('a')",
        "import os; os.rename('a', 'b')",
        "from os import fsync",
        "import os; os.path.getsize('a')",
        "from os.path import exists",
        "import mmap; mmap.mmap(3, 0)",
        "from shutil import copy",
        "from pathlib import Path; Path('a').read_bytes()",
        "from pathlib import Path\ndef f(path: Path): return (path / 'x').stat()",
        "from pathlib import Path\nhere = Path('a')\nthere = here / 'b'\nthere.unlink()",
        "from pathlib import Path\nclass A:\n    root: Path\n    def f(self, path: Path | None): path.parent.iterdir()",
    ],
)
def test_way_around_the_files_package_is_noticed(code):
    assert file_accesses(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.getpid(); os.environ.get('A'); os.fspath('a'); os.path.join('a', 'b')",
        "files.open('a'); self.files.rename('a', 'b'); handle.stat()",
        "from pathlib import Path\ndef f(path: Path): return path.name, path.suffix, path / 'x'",
        "text.replace('a', 'b'); import io; io.BytesIO(b'')",
        "import mmap; isinstance(view, mmap.mmap)",
    ],
)
def test_harmless_neighbour_of_a_file_function_is_left_alone(code):
    assert file_accesses(ast.parse(code)) == []


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_module_begins_by_saying_what_it_is(path):
    assert (ast.get_docstring(ast.parse(path.read_text())) or "").strip(), f"{relative(path)} has no docstring"


@pytest.mark.parametrize("path", [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))], ids=relative)
def test_file_is_no_longer_than_a_noun_should_be(path):
    is_compiled = path.is_relative_to(SOURCE) and module_name(path) in _build.COMPILED
    limit = MAX_LINES_COMPILED if is_compiled else MAX_LINES
    lines = path.read_text().count("\n")
    assert lines <= limit, f"{relative(path)} has {lines} lines, {limit} are enough for one noun: find the second one"


def test_modules_do_not_import_each_other_in_circles():
    found = circles(import_graph({module_name(path): path.read_text() for path in MODULES}))
    named = [f"{', '.join(sorted(circle))} import each other" for circle in found]
    assert not named, "\n".join([*named, "give what they share a module of its own, or say with a Protocol what one needs"])


@pytest.mark.parametrize(
    ("sources", "circle"),
    [
        ({"p.a": "from p.b import B", "p.b": "import p.a"}, "p.a p.b"),
        ({"p.a": "from p.b import B", "p.b": "if TYPE_CHECKING:\n    from p.a import A"}, "p.a p.b"),
        ({"p.a": "from p.b import B", "p.b": "def f():\n    from p.a import A"}, "p.a p.b"),
        ({"p": "", "p.a": "from p import b", "p.b": "from p import a"}, "p.a p.b"),
        ({"p": "from p.a import A", "p.a": "from p import b", "p.b": ""}, "p p.a"),
        ({"start": "import a", "a": "import b", "b": "import c, end", "c": "import a", "end": ""}, "a b c"),
    ],
)
def test_circle_of_imports_is_noticed(sources, circle):
    assert circles(import_graph(sources)) == {frozenset(circle.split())}


@pytest.mark.parametrize(
    "sources",
    [
        {"a": "import b, c", "b": "import d", "c": "import d", "d": ""},
        {"p": "from p.a import A", "p.a": "import p.b", "p.b": "import os"},
        {"a": "from a import A"},
    ],
)
def test_modules_in_layers_are_left_alone(sources):
    assert circles(import_graph(sources)) == set()


def test_package_file_holds_names_only():
    """`milepost/__init__` is the exception: looking names up late needs a function."""
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)
    busy = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCE.rglob("__init__.py")
        if path != SOURCE / "__init__.py"
        for node in ast.parse(path.read_text()).body
        if not isinstance(node, allowed)
    ]
    assert not busy, f"code in a package file; move it to a module of its own: {busy}"


# Written in pieces so that this file does not name what it forbids. The hosts of package registries, and directories
# that exist on somebody's machine only.
FORBIDDEN = re.compile(
    "|".join(
        [
            *(re.escape(host) for host in ("pypi" + ".org", "python" + "hosted.org", "registry." + "npmjs", "repo1." + "maven")),
            r"repo\." + "maven",
            "/" + r"(?:work|root|home/\w+|Users/\w+|opt/wheels)\b/",
        ]
    )
)


def test_no_tracked_file_names_a_package_host_or_a_directory_of_one_machine():
    found = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if match := FORBIDDEN.search(line):
                found.append(f"{relative(path)}:{number}: {match.group()}")
    assert not found, "\n".join(found)


def test_makefile_compiles_anew_after_a_change_of_a_compiled_module_or_its_header():
    (wildcard,) = re.findall(r"^KERNEL := \$\(wildcard (.*)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    sources = [f"src/{name.replace('.', '/')}.py" for name in _build.COMPILED]
    assert sorted(wildcard.split()) == sorted(["src/milepost/codec/octets.pxd", *sources])


def test_mypy_looks_past_the_compiled_modules_and_no_others():
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    (modules,) = [override["module"] for override in overrides if override.get("ignore_errors")]
    assert sorted(modules) == sorted(_build.COMPILED)


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_continuous_integration_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make test")


def python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_import_of_milepost_loads_none_of_its_packages_and_nothing_heavy():
    loaded = python("import sys; before = set(sys.modules); import milepost; print(*sorted(set(sys.modules) - before))").split()
    assert [name for name in loaded if name.startswith("milepost")] == ["milepost", "milepost._version"]
    heavy = {"asyncio", "click", "cramjam", "crc32c", "dataclasses", "logging", "numpy", "pandas", "pyarrow", "rich", "socket"}
    assert not heavy & set(loaded)


def test_public_names_load_no_arrow_no_numpy_no_event_loop():
    loaded = python("import sys, milepost; [getattr(milepost, name) for name in milepost.PUBLIC]; print(*sys.modules)").split()
    assert not {"asyncio", "numpy", "pandas", "pyarrow", "pyspark", "rich"} & set(loaded)


@pytest.mark.parametrize("name", milepost.PUBLIC)
def test_public_name_is_there(name):
    assert getattr(milepost, name) is not None
    assert name in dir(milepost)


def test_name_that_is_not_public_is_an_attribute_error_that_lists_the_public_ones():
    with pytest.raises(AttributeError, match=r"'openlog'.*open_log"):
        _ = milepost.openlog


def test_version_is_the_projects():
    assert f'\nversion = "{milepost.__version__}"\n' in (ROOT / "pyproject.toml").read_text()


COMPILED = [name for name in _build.COMPILED if SOURCE.parent.joinpath(*name.split(".")).with_suffix(".py").exists()]


@pytest.mark.parametrize("name", COMPILED)
def test_pure_twin_is_taken_when_asked_for(name):
    assert python(f"import {name} as m; print(m.__file__)", MILEPOST_PURE="1").endswith(name.rpartition(".")[2] + ".py")


@pytest.mark.parametrize("name", COMPILED)
def test_pure_twin_needs_no_cython_installed(name):
    hidden = "import sys; sys.modules.update({'cython': None, 'Cython': None})"
    assert python(f"{hidden}; import {name} as m; print(m.__file__)", MILEPOST_PURE="1").endswith(".py")
