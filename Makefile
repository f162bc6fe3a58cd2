# milepost: make setup | test | test-pure | demo | bench | bench-broker | bench-spark | bench-cluster | trouble | simulate |
#           compatibility | clean
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
EXTRAS := cli,arrow,spark,connect,delta,security,zookeeper,test
KERNEL := $(wildcard src/milepost/codec/octets.pxd src/milepost/record/kernel.py src/milepost/record/arrow_rows.py src/milepost/record/key_partitions.py src/milepost/record/record_walks.py src/milepost/log/cleaning/offset_map.py src/milepost/log/quick_append.py src/milepost/broker/produce/frames.py)

.PHONY: setup test test-pure lint demo bench bench-broker bench-spark bench-cluster trouble simulate compatibility clean
.DELETE_ON_ERROR:

setup: $(VENV)/.installed $(VENV)/.kernel

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "milepost needs Python 3.11 or newer: name one with 'make setup PYTHON=/path/to/python3.11'."; exit 1; }
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

# Against Apache Kafka, where Java and Maven are there; BENCH="--rounds 3 --figures 64k,consume" for less.
bench-broker: setup
	$(BIN)/python -m benchmarks.broker $(BENCH)

# Against Spark's own connector to Kafka, fetched by Maven.
bench-spark: setup
	$(BIN)/python -m benchmarks.spark.read
	$(BIN)/python -m benchmarks.spark.wire
	$(BIN)/python -m benchmarks.spark.jobs
	$(BIN)/python -m benchmarks.spark.sink
	$(BIN)/python -m benchmarks.spark.scaling

# Three brokers against three of Kafka 3.9.1, each with a ZooKeeper; BENCH="--rounds 2 --figures 64k,failover" for less.
bench-cluster: setup
	$(BIN)/python -m benchmarks.cluster $(BENCH)

# What takes long, and then every client of the single broker against a cluster of three.
trouble: setup
	$(BIN)/pytest -q -n 2 -m trouble --hypothesis-profile=trouble
	MILEPOST_CLUSTER=1 $(BIN)/pytest -q -n 2 --dist loadfile -m "" tests/clients --ignore=tests/clients/test_kafka_itself.py
	$(BIN)/python -m tests.hostile.attack --all --bad
	$(BIN)/python -m tests.hostile.attack --cluster --bad

# Clusters in one thread, each from one seed: `make simulate SEEDS=1..10000`; one of them, step by step: `make simulate SEED=1234 TRACE=1`.
SEEDS ?= 1..10000
simulate: setup
	$(BIN)/python -m tests.simulation $(or $(SEED),$(SEEDS)) $(if $(TRACE),--trace)

# docs/compatibility.md from what the client tests do; a test that fails shows on the page and fails this too.
compatibility: setup
	rm -rf build/compatibility
	-CI=true MILEPOST_COMPATIBILITY=build/compatibility $(BIN)/pytest -q -n 2 tests/clients --ignore=tests/clients/test_compatibility.py
	$(BIN)/python -m tests.clients.compatibility build/compatibility docs/compatibility.md

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find src -name '*.so' -delete
