# Every target but clean and help needs the stamp of `setup`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup demo test check lint types examples readme bench study clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make .venv, install everything, compile the kernels

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q -q --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -q -q -e '.[plot,envs]' --group dev
	@$(BIN)/python scripts/warm.py
	@touch $(READY)
	@echo "ready: try make demo"

demo: $(READY)  ## learn the risky lock, solve risky problems, draw demo/*.png
	@$(BIN)/python examples/demo.py

test: $(READY)  ## all tests
	@$(BIN)/python -m pytest

lint: $(READY)  ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)  ## mypy --strict
	@$(BIN)/mypy

examples: $(READY)  ## run the example scripts
	@for script in frozen_lake betting machine_maintenance risky_lock; do \
	  echo "examples/$$script.py"; $(BIN)/python -W error examples/$$script.py || exit 1; done

readme: $(READY)  ## run the commands and the Python in README.md
	@$(BIN)/python scripts/check_readme.py

check: lint types test examples readme  ## what CI runs

bench: $(READY)  ## measure against other packages, write docs/benchmarks.md
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/planners.py
	@.bench-venv/bin/python benchmarks/em.py

study: $(READY)  ## the studies of the learners (about 15 minutes), write docs/results.md
	@$(BIN)/python studies/run.py

clean:  ## remove environments, caches and output
	rm -rf .venv .bench-venv demo dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
