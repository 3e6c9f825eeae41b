# Set-up is two commands on a fresh machine: `make lab` opens the course, `make test` tests it.
# PYTHON=/path/to/python3.12 picks the Python; TORCH=cpu installs torch without CUDA.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test lab test test-full check weave lock site site-test classroom clean

BOOT := $(or $(PYTHON),python3)
PY := .venv/bin/python
export PYTHON TORCH

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## make the environment in .venv (the other targets do this first)
	@command -v $(BOOT) >/dev/null || { echo "flashlab: $(BOOT) is not on this machine: install Python 3.11 to 3.13 (Debian, Ubuntu: apt install python3 python3-venv)."; exit 1; }
	@$(BOOT) scripts/setup_env.py

setup-test:
	@$(BOOT) scripts/setup_env.py --test

lab: setup ## open the course in JupyterLab
	@$(PY) -m flashlab lab

test: setup-test check ## test the course (a learner's answers: flashlab check)
	@$(PY) scripts/run_tests.py -m "not slow"

test-full: setup-test check ## the same and the slow tests
	@$(PY) scripts/run_tests.py

check: setup-test ## the quick gate: lint, format, stubs, notebooks, architecture
	@$(PY) -m flashlab.authoring check
	@$(PY) -m pytest -q tests/test_architecture.py

weave: setup-test ## write stubs and stub cells from solutions/
	@$(PY) -m flashlab.authoring weave

lock: setup-test ## resolve the locks anew from pyproject.toml
	@$(PY) -m pip install --quiet uv
	@$(PY) scripts/make_lock.py

site: setup-test ## build the course as a static site in build/site/html
	@$(PY) scripts/site_env.py
	@.venv-site/bin/python -m flashlab.website

classroom: ## make the environment of an instructor in .venv-class (docs/instructors.md)
	@$(BOOT) scripts/class_env.py

site-test: site ## test the built site in a browser
	@$(PY) -m pytest -q tests/website

clean: ## remove environments and caches; never work/
	rm -rf .venv .venv-class .venv-colab .venv-nocompiler .venv-site .venv-triton39 dist build .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './work/*' -prune -exec rm -rf {} +
