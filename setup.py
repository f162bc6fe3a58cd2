"""Compiles the modules listed in milepost._build when this machine can; everything else is in pyproject.toml.

Two cases are kept apart. No Cython, no compiler or no Python headers: the install goes on, the pure Python twin
is used, and one line says so. A compiler that works on a probe but not on our module: that is a bug of ours and
fails the build, so that a broken kernel cannot hide behind the slow twin. MILEPOST_COMPILE=0 compiles nothing and
says nothing (`make setup` uses it because it compiles in a step of its own).
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = {
    name: Path("src", *name.split(".")).with_suffix(".py") for name in runpy.run_path("src/milepost/_build.py")["COMPILED"]
}


class BuildKernel(build_ext):
    def run(self) -> None:
        self.beside_source = bool(self.inplace)  # setuptools hides `inplace` from build_extensions
        super().run()

    def build_extensions(self) -> None:
        if os.environ.get("MILEPOST_COMPILE") == "0":
            self.distribution.ext_modules[:] = self.extensions[:] = []
            return
        reason = self.why_not()
        if reason is None:
            from Cython.Build import cythonize

            self.distribution.ext_modules[:] = self.extensions[:] = [
                self.prepared(extension)
                for extension in cythonize(
                    self.extensions, build_dir="build/cython", language_level=3, quiet=True, compiler_directives={"binding": True}
                )
            ]
            super().build_extensions()
        else:
            # An extension of an earlier build would be older than its source and still win the import.
            for extension in self.extensions if self.beside_source else ():
                self.in_source(extension).unlink(missing_ok=True)
            self.distribution.ext_modules[:] = self.extensions[:] = []
            say(f"milepost: using the pure Python kernel, which is slower, because {reason}, then install milepost again.")

    def copy_extensions_to_source(self) -> None:
        # A new file, not new bytes in the old one: whoever has loaded that goes on with it.
        for extension in self.extensions:
            self.in_source(extension).unlink(missing_ok=True)
        super().copy_extensions_to_source()

    def in_source(self, extension: Extension) -> Path:
        return SOURCES[extension.name].with_name(Path(self.get_ext_filename(extension.name)).name)

    def prepared(self, extension: Extension) -> Extension:
        # cythonize makes new Extension objects; build_ext has already put its own marks on the old ones.
        extension._full_name = self.get_ext_fullname(extension.name)
        extension._links_to_dynamic = False
        extension._needs_stub = False
        extension._file_name = self.get_ext_filename(extension._full_name)
        return extension

    def why_not(self) -> str | None:
        """What stands in the way of compiling, with the remedy, or None."""
        try:
            import Cython.Build  # noqa: F401
        except ImportError:
            return "Cython is not installed; run `pip install Cython`"
        with tempfile.TemporaryDirectory() as directory:
            probe = Path(directory, "probe.c")
            probe.write_text("#include <Python.h>\nint main(void) { return 0; }\n")
            try:
                with quiet(directory):
                    self.compiler.compile([str(probe)], output_dir=directory)
            except Exception:
                return "no working C compiler with Python headers was found; install them (Debian: `apt install gcc python3-dev`)"
        return None


@contextlib.contextmanager
def quiet(directory: str):
    """The compiler's own complaint about the probe is kept away: `say` is the one line a user should read."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(Path(directory, "stderr"), "wb") as sink:
        os.dup2(sink.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def say(line: str) -> None:
    """pip swallows what a build prints, so the terminal is asked first; without one, stderr (`pip install -v`)."""
    if not sys.stderr.isatty():
        with contextlib.suppress(OSError), open("/dev/tty", "w") as terminal:
            print(line, file=terminal)
            return
    print(line, file=sys.stderr)


setup(
    cmdclass={"build_ext": BuildKernel},
    ext_modules=[
        Extension(name, [str(source)], extra_compile_args=["-O3"]) for name, source in SOURCES.items() if source.exists()
    ],
)
