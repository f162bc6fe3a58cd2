# milepost: make setup | test | test-pure | demo | bench | trouble | clean
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# kazoo joins as [zookeeper] when its package arrives.
EXTRAS := cli,arrow,spark,zookeeper,test
KERNEL := $(wildcard src/milepost/record/kernel.py src/milepost/record/arrow_rows.py src/milepost/log/offset_map.py)

.PHONY: setup test test-pure lint demo bench trouble clean
.DELETE_ON_ERROR:

setup: $(VENV)/.installed $(VENV)/.kernel

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "milepost needs Python 3.10 or newer: name one with 'make setup PYTHON=/path/to/python3.11'."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is incomplete here: install it (Debian: apt install python3-venv) and run 'make setup' again."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The build tools go in first, pinned, and the build uses them: quicker than an isolated build, and repeatable.
$(VENV)/.installed: $(VENV)/.python pyproject.toml constraints.txt setup.py src/milepost/_build.py
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt setuptools Cython
	MILEPOST_COMPILE=0 $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.kernel: $(VENV)/.installed $(KERNEL)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -q -n 2

# The whole suite on the uncompiled kernel; `make test` runs the kernel's own tests on both twins.
test-pure: setup
	MILEPOST_PURE=1 $(BIN)/pytest -q -n 2

demo: setup
	$(BIN)/python -m milepost.demo

bench: setup
	$(BIN)/python -m benchmarks

trouble: setup
	$(BIN)/pytest -q -n 2 -m trouble --hypothesis-profile=trouble

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete
