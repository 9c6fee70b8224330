# Every target but clean and help needs the stamp of `setup`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY := .venv/.ready

.PHONY: help setup hooks demo test models others check rest lint types installed examples readme docs lock audit lowest package bench study clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make .venv, install everything, compile the kernels

# What is installed, and what builds it, has the versions and hashes of requirements/*.txt; gym has no wheel.
INSTALL := -m pip install -q -q --require-hashes --no-build-isolation --only-binary :all: --no-binary gym,pymdptoolbox -r
ITSELF := -m pip install -q -q --no-deps --no-build-isolation -e .

$(READY): pyproject.toml requirements/build.txt requirements/dev.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python $(INSTALL) requirements/build.txt
	@$(BIN)/python $(INSTALL) requirements/dev.txt
	@$(BIN)/python $(ITSELF)
	@$(BIN)/python scripts/warm.py
	@touch $(READY)
	@echo "ready: try make demo"

.tools-venv/.ready: requirements/tools.txt
	@test -x .tools-venv/bin/python || $(PYTHON) -m venv .tools-venv
	@.tools-venv/bin/python $(INSTALL) requirements/tools.txt
	@touch $@

.lowest-venv/.ready: pyproject.toml requirements/build.txt requirements/lowest.txt
	@test -x .lowest-venv/bin/python || $(PYTHON) -m venv .lowest-venv
	@.lowest-venv/bin/python $(INSTALL) requirements/build.txt
	@.lowest-venv/bin/python $(INSTALL) requirements/lowest.txt
	@.lowest-venv/bin/python $(ITSELF)
	@touch $@

hooks: $(READY)  ## install the pre-commit hooks (needs pre-commit)
	@pre-commit install

demo: $(READY)  ## learn the risky lock, solve risky problems, draw demo/*.png
	@$(BIN)/python examples/demo.py

test: $(READY)  ## all tests (those of the report page in Chromium, which is installed if it can be)
	@bash scripts/chromium.sh
	@$(BIN)/python -m pytest

# The same tests in two halves, so that both cores have work to the end.
HALF := tests/risk tests/models tests/policies tests/envs tests/planning tests/learning

models: $(READY)
	@$(BIN)/python -m pytest $(HALF)

others: $(READY)
	@bash scripts/chromium.sh
	@$(BIN)/python -m pytest tests $(addprefix --ignore=,$(HALF))

lint: $(READY)  ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)  ## mypy --strict
	@$(BIN)/mypy

examples: $(READY)  ## run the example scripts
	@for script in frozen_lake betting machine_maintenance risky_lock cliff function_class; do \
	  echo "examples/$$script.py"; $(BIN)/python -W error examples/$$script.py || exit 1; done
	@$(BIN)/python scripts/notebooks.py
	@for script in inventory sepsis driving; do echo "examples/$$script.py"; \
	  OPENBLAS_NUM_THREADS=1 TAILRANK_SMALL=0.02 $(BIN)/python -W ignore examples/$$script.py demo/$$script.png || exit 1; done

readme: $(READY)  ## run the commands and the Python in README.md
	@$(BIN)/python scripts/check_readme.py

docs: $(READY)  ## build docs/_build/html, run the examples of its pages
	@$(BIN)/python -m sphinx -W --keep-going -E -q -d docs/_build/doctrees -b html docs docs/_build/html
	@$(BIN)/python scripts/check_docs.py

installed: $(READY)  ## what is installed is what is locked, unchanged, under licences that are allowed
	@$(BIN)/python scripts/lock.py --check
	@$(BIN)/python scripts/audit.py

check: $(READY)  ## what CI runs: all tests and everything else, on two cores
	@+$(MAKE) --no-print-directory -j2 --output-sync=target models others rest

rest: lint docs examples readme types installed

lock: .tools-venv/.ready  ## write requirements/*.txt anew; newer versions with make lock UPGRADE=--upgrade
	@.tools-venv/bin/python scripts/lock.py $(UPGRADE)

audit: .tools-venv/.ready installed  ## ask the advisory service for known vulnerabilities
	@.tools-venv/bin/python scripts/advisories.py

lowest: .lowest-venv/.ready  ## tests at the lowest versions that pyproject.toml declares
	@.lowest-venv/bin/python -m pytest -p no:cacheprovider -o filterwarnings=default --disable-warnings \
	  tests/test_*.py tests/risk tests/models tests/policies tests/envs tests/planning tests/learning tests/plots tests/runs/test_run.py

package: $(READY)  ## build the wheel, install it without extras and use it
	@$(BIN)/python scripts/check_package.py

bench: $(READY)  ## measure against other packages, write docs/benchmarks.md
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/planners.py
	@.bench-venv/bin/python benchmarks/em.py

study: $(READY)  ## the studies of the learners (hours; finished runs are skipped), write docs/*results.md
	@$(BIN)/python studies/run.py
	@$(BIN)/python studies/zoo.py
	@$(BIN)/python studies/bound_coverage.py
	@$(BIN)/python studies/comparison_coverage.py
	@$(BIN)/python studies/fuzz_planner.py 3600
	@$(BIN)/python studies/bernstein.py
	@$(BIN)/python studies/augmented.py
	@$(BIN)/python studies/observations.py
	@$(BIN)/python studies/lowrank.py
	@$(BIN)/python studies/lowrank_kinds.py
	@$(BIN)/python studies/lowrank_candidate.py
	@$(BIN)/python studies/simulators.py
	@$(BIN)/python studies/simulators_kernel.py
	@$(BIN)/python studies/simulators_kernel.py --table
	@$(BIN)/python studies/images.py --steps 15000
	@$(BIN)/python studies/logs.py
	@$(BIN)/python studies/false_alarms.py
	@$(BIN)/python studies/misspecified.py
	@$(BIN)/python studies/misspecified.py --table
	@$(BIN)/python studies/regret_slopes.py
	@$(BIN)/python studies/regret_slopes.py --table
	@$(BIN)/python studies/crash.py
	@$(BIN)/python studies/fuzz_files.py 300

clean:  ## remove environments, caches and output
	rm -rf .venv .bench-venv .tools-venv .lowest-venv demo dist build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
