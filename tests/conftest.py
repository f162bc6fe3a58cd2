"""What every test shares: hypothesis' profiles, the golden directories, and the kernel as both of its twins."""

from __future__ import annotations

import importlib
import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES, SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.golden_fixture"] if importlib.util.find_spec("tests.golden_fixture") else []

# A test run that fails must fail again: no clock, no stored examples, no new seed. `make trouble` looks further.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("house", deadline=None, database=None, suppress_health_check=QUIET, derandomize=True)
settings.register_profile("trouble", settings.get_profile("house"), derandomize=False, max_examples=5000, print_blob=True)
settings.load_profile("house")


def twin(name: str, kind: str) -> ModuleType:
    """A compiled module of milepost as "compiled" (what `import` gives) or "pure" (its source, run uncompiled).

    Both go by the same name and both can be there in one process, because the pure one is not put into
    sys.modules: the rest of milepost goes on with the one it imported.
    """
    parent = importlib.import_module(name.rpartition(".")[0])
    source = Path(parent.__path__[0], name.rpartition(".")[2] + ".py")
    if kind == "pure":
        loader = SourceFileLoader(name, str(source))
        spec = importlib.util.spec_from_file_location(name, source, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        return module
    if not any(source.with_name(source.stem + suffix).exists() for suffix in EXTENSION_SUFFIXES):
        pytest.skip(f"{name} is not compiled here: this machine has no C compiler with Python headers")
    module = importlib.import_module(name)
    if not str(module.__file__).endswith(tuple(EXTENSION_SUFFIXES)):
        pytest.skip(f"{name} runs uncompiled in this process: MILEPOST_PURE=1")
    return module


@pytest.fixture(scope="session", params=["compiled", "pure"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """`milepost.record.kernel`, once compiled and once as plain Python: the same tests run on both."""
    return twin("milepost.record.kernel", request.param)
