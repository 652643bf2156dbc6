# `make demo` and `make test` are the only commands a newcomer needs; everything else they need first
# (an environment in .venv with exactly what requirements.lock says) is made on the way.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help venv demo test check format docs bench faults lock wheel clean

help:
	@echo "make demo    run the refund example end to end"
	@echo "make test    run the whole test suite (needs nothing that runs elsewhere)"
	@echo "make check   lint, format, types, import rules"
	@echo "make format  apply the formatter and the safe lint fixes"
	@echo "make docs    write the reference pages that come from the code"
	@echo "make bench   measure, and write docs/reference/performance.md (minutes)"
	@echo "make faults  kill, pause and stop real processes at every step (Linux; minutes)"
	@echo "make wheel   build dist/*.whl"
	@echo "make lock    pin the newest versions that pyproject.toml allows"
	@echo "make clean   remove everything that make made"
	@echo "ARGS=...     handed to demo, test and faults, as in make test ARGS='-k supervisor'"
	@echo "PYTHON=...   which Python 3.11+ to use (now: $(PYTHON))"

venv: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Treadle needs Python 3.11 or newer; '$(PYTHON)' is not. Say which one: make $(or $(MAKECMDGOALS),venv) PYTHON=/path/to/python3" >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -r requirements.lock
	$(PIP) install --quiet --no-deps -e .
	@touch $@

demo: venv
	$(BIN)/treadle demo $(ARGS)

test: venv
	$(BIN)/python -m pytest $(ARGS)

check: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: venv
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: venv
	$(BIN)/python -m docs.generate

bench: venv
	$(BIN)/python -m bench.report

faults: venv
	$(BIN)/python -m tests.faults $(ARGS)

# Annotated with who needs what; no index URL goes into the file, so it installs from any mirror.
lock: venv
	$(PIP) install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--upgrade --no-emit-index-url --no-header --quiet --output-file requirements.lock

wheel: venv
	rm -rf dist
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache .treadle
	find messages runtime actors treadle tests -name __pycache__ -type d -prune -exec rm -rf {} +
