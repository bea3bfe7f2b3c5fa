# Every target makes the virtual environment itself; only python3.11 is needed.
PYTHON ?= python3.11
VENV ?= .venv
EXTRAS ?= dev
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := test
.PHONY: train test test-gpu check lint types fast-tests bench clean

train: $(VENV)/.ready
	$(BIN)/python examples/mnist.py $(ARGS)

test: $(VENV)/.ready
	$(BIN)/python -m pytest $(ARGS)

test-gpu: $(VENV)/.ready
	$(BIN)/python -m pytest -m gpu $(ARGS)

check: lint types fast-tests

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.ready
	$(BIN)/mypy

fast-tests: $(VENV)/.ready
	$(BIN)/python -m pytest -q -m "not gpu and not slow"

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/run.py $(ARGS)

clean:
	rm -rf $(VENV)

# The stamp is written last, so an installation that broke off is done again.
$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	touch $@
