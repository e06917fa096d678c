# `make demo` and `make test` each do all of their own set-up: a virtual environment in .venv, pinned packages, the work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-late test-all check format clean

demo: $(VENV)/.runs
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh demo/demo.sh

# Two tests at a time on one thread each; what measures times or shapes networks runs alone after them.
test: $(VENV)/.develops check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not alone"
	$(BIN)/python -m pytest -m "not slow and alone"

# What is as slow as launches, probes and searches are, and still belongs to every submission.
test-late: $(VENV)/.develops
	$(BIN)/python -m pytest -m late

test-all: $(VENV)/.develops check
	PACELINE_EXAMPLES=thorough $(BIN)/python -m pytest

check: $(VENV)/.develops
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.develops
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

# torch comes first and by its exact pin: whatever depends on torch would otherwise choose a build by itself.
$(VENV)/.runs: constraints.txt pyproject.toml
	@echo "Setting up $(VENV) (a minute or two, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch==2.13.0
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable ".[digits]"
	@touch $@

$(VENV)/.develops: $(VENV)/.runs
	@$(PIP) --no-build-isolation --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
