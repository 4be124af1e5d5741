# Everything starts here, on a machine that has Python 3.11 or newer, make and a C compiler.
# Each interpreter gets a virtual environment of its own under build/, installed from the pins in
# constraints.txt, and installed again only when the pins or pyproject.toml change.

SHELL  := /bin/bash
PYTHON ?= python3

PYVERSION := $(shell $(PYTHON) -c 'import platform; print(platform.python_version())' 2>/dev/null)
VENV      := build/venv-$(or $(PYVERSION),none)
BIN       := $(VENV)/bin
PY        := $(BIN)/python
READY     := $(VENV)/.ready
PIP       := $(PY) -m pip install -qq --disable-pip-version-check --constraint constraints.txt

SUPPORTED   := 3.11 3.12 3.13 3.14
SOAK_FACTOR ?= 20
PYTEST_ARGS ?=
WORKERS     ?= $(shell nproc)
PYTEST      := $(PY) -m pytest --numprocesses $(WORKERS) --dist worksteal

# Hundreds of tests start Python anew. Where the environment forbids compiled files, each of these
# processes would compile the engine again: 6.5 CPU seconds for a command that takes 2.9.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test lint types pytest soak native bench test-all format clean python-ok

help:  ## print this list
	@echo "make targets (PYTHON=$(PYTHON), version $(or $(PYVERSION),not found)):"
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
	    while IFS='|' read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

setup: $(READY)  ## create the virtual environment only

# The error stream stays a terminal, so that the progress bar is shown. The lines that replay a failure have the
# full path of the command. A traceback also gives exit code 1, so the demo passes only if it printed such lines.
# The demo counts runs, not time: it makes the same runs and finds the same tapes on a busy and on an idle machine.
# With this seed, 69 runs find all five bugs; with the reports this took five to eight minutes.
demo: $(READY)  ## search Deep Sci-Fi with five planted bugs, and print what was found
	@mkdir -p build
	@echo "Deep Sci-Fi with five mistakes switched on (examples/deep_sci_fi/demo.py), on a real PostgreSQL:"
	@$(BIN)/foretold explore examples.deep_sci_fi.demo:Demo --keep-going --workers 2 --seed 1 \
	    --runs 70 --shrink-runs 200 --no-confirm --no-saved | \
	    sed 's|foretold replay |$(BIN)/foretold replay |' | tee build/demo.txt; \
	code=$${PIPESTATUS[0]}; \
	if [ "$$code" -ne 1 ]; then \
	    echo "demo: expected exit code 1 (violated properties), got $$code" >&2; exit 1; \
	elif ! grep -q 'foretold replay' build/demo.txt; then \
	    echo "demo: exit code 1, but no line that replays a failure" >&2; exit 1; \
	fi; \
	echo; $(PY) -m examples.deep_sci_fi.demo build/demo.txt | tee -a build/demo.txt; \
	echo; echo "demo: bugs were found, as they should be. All of this is in build/demo.txt."

test: lint types pytest  ## run everything that a change must pass: ruff, mypy, pytest

lint: $(READY)  ## run ruff: rules and format
	$(PY) -m ruff check
	$(PY) -m ruff format --check

types: $(READY)  ## run mypy
	$(PY) -m mypy

pytest: $(READY)  ## run only the tests, on all cores; PYTEST_ARGS='tests/tape -x' selects some
	$(PYTEST) $(PYTEST_ARGS)

soak: $(READY)  ## run the long searches; SOAK_FACTOR multiplies their counts
	FORETOLD_SOAK_FACTOR=$(SOAK_FACTOR) $(PYTEST) -m soak $(PYTEST_ARGS)

# These packages (native-large in pyproject.toml) are too large for every test machine, so they get their own folder.
native: $(READY)  ## install and test large native libraries (polars, pyarrow, duckdb, scipy, ...)
	$(PIP) --upgrade --target $(VENV)/native-packages $$($(PY) -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["native-large"])')
	PYTHONPATH=$(CURDIR)/$(VENV)/native-packages $(PY) -m pytest tests/compat/test_native_libraries.py tests/compat/test_engines.py

bench: $(READY)  ## run the benchmarks; figures go to build/*.json
	$(PY) benchmarks/run.py --output build/bench.json
	PYTHONPATH=. $(PY) benchmarks/postgres.py --output build/postgres.json
	$(PY) benchmarks/web.py --output build/web.json
	$(PY) benchmarks/search.py --output build/search.json
	$(PY) benchmarks/natural/run.py --soak --output build/natural.json
	$(PY) benchmarks/machines.py --output build/machines.json
	PYTHONPATH=. $(PY) benchmarks/scenarios.py --output build/scenarios.json
	PYTHONPATH=. $(PY) benchmarks/cardinal.py --output build/cardinal.json
	PYTHONPATH=. $(PY) benchmarks/deep_sci_fi.py --output build/deep_sci_fi.json --stories build/stories

# `python3.12` on PATH may be a pyenv shim that only prints an error, so each candidate has to run
# and to give its version before it counts.
test-all:  ## run the tests on every Python 3.11-3.14 found on PATH or in ~/.pyenv
	@tried=0; failed=; missing=; \
	for version in $(SUPPORTED); do \
	    found=; \
	    for python in "python$$version" \
	            "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/"$$version".*/bin/"python$$version"; do \
	        says=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
	        if [ "$$says" = "$$version" ]; then found=$$python; break; fi; \
	    done; \
	    if [ -z "$$found" ]; then missing="$$missing $$version"; continue; fi; \
	    echo "== Python $$version: $$found"; \
	    tried=$$((tried + 1)); \
	    $(MAKE) --no-print-directory pytest PYTHON="$$found" || failed="$$failed $$version"; \
	done; \
	if [ -n "$$missing" ]; then echo "test-all: not found, not tested:$$missing"; fi; \
	if [ -n "$$failed" ]; then echo "test-all: failed on:$$failed" >&2; exit 1; fi; \
	if [ "$$tried" -eq 0 ]; then echo "test-all: no Python of $(SUPPORTED) found" >&2; exit 1; fi; \
	echo "test-all: passed on $$tried version(s) of Python"

format: $(READY)  ## format the sources with ruff
	$(PY) -m ruff check --fix-only
	$(PY) -m ruff format

clean:  ## remove build/ and all other generated files
	rm -rf build dist .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python-ok:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "foretold needs Python 3.11 or newer; '$(PYTHON)' is $(or $(PYVERSION),not runnable)." >&2; \
	    echo "Name another one:  make $(or $(MAKECMDGOALS),test) PYTHON=python3.12" >&2; \
	    exit 1; }

# An environment remembers where it was made: in a copied or moved tree it would still import the
# sources of the old place, so there it is installed again.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

# setuptools comes from the pins as well, hence no build isolation.
$(READY): pyproject.toml constraints.txt | python-ok
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip setuptools
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@echo '$(CURDIR)' > $@
