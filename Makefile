# `make` lists what there is. The first target you run makes .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check fix chaos conformance bench clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## watch a task outlive the server that is killed under it
	@$(BIN)/python examples/demo.py

test: $(READY) ## everything: checks, all tests, crash tests with real processes
	@$(MAKE) --no-print-directory static
	@$(BIN)/pytest -q -n 4 --dist worksteal

check: $(READY) ## format, lint, types, layers and the fast tests, in a few minutes
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target static fast

.PHONY: static fast
fast: $(READY)
	@$(BIN)/pytest -q -n auto -m "not slow"

static: $(READY)
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run make fix"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pyright

fix: $(READY) ## format, and mend what the linter can
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

chaos: $(READY) ## kill, stop and cut off everything for ten minutes, on every store (MINUTES=, SEED=)
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

conformance: $(READY) ## the official conformance suite against our server, as a table
	@$(BIN)/python -m tests.conformance

bench: $(READY) ## measure against the naive baseline; prints a table, writes build/bench.json
	@$(BIN)/python -m benchmarks

clean: ## forget .venv and everything that was built
	rm -rf $(VENV) build dist .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) ..."
	@if command -v uv >/dev/null 2>&1; then \
	    uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	    uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --group dev --editable . ; \
	else \
	    $(PYTHON) -m venv $(VENV) && \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1" --constraint constraints.txt && \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev --editable . ; \
	fi
	@touch $@
