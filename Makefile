# The commands of the project. Each does all the set-up it needs: python3 (3.11 or newer) and make are enough.

SHELL  := /bin/bash
VENV   := .venv
READY  := $(VENV)/.ready
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

RANKS ?= 1 2 3 4
ARGS  ?=

# One rank is one process: threads of BLAS beside it would fight for the same cores.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
# Open MPI refuses root and more ranks than cores unless told otherwise (for versions 4 and 5); MPICH needs nothing.
export OMPI_ALLOW_RUN_AS_ROOT = 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1
export OMPI_MCA_rmaps_base_oversubscribe = 1
export PRTE_MCA_rmaps_default_mapping_policy = :oversubscribe

.PHONY: help setup train test lint rules clean
.DEFAULT_GOAL := help

help:  ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' Makefile

train: $(READY)  ## train the example on two ranks: mpirun -n 2 python examples/train.py
	@mpirun -n 2 python examples/train.py $(ARGS)

test: $(READY)  ## the whole suite at 1, 2, 3 and 4 ranks; or: make test RANKS=2 ARGS='-k reshard -x'
	@report=; status=0; \
	for n in $(RANKS); do \
	  echo; echo "== mpirun -n $$n python -m pytest --with-mpi $(ARGS)"; start=$$SECONDS; outcome=passed; \
	  mpirun -n $$n python -m pytest --with-mpi $(ARGS) < /dev/null || { outcome="FAILED ($$?)"; status=1; }; \
	  report+="ranks: $$n   $$outcome   $$((SECONDS - start)) s"$$'\n'; \
	done; \
	echo; echo -n "$$report"; exit $$status

soak: $(READY)  ## 10,000 steps of training, killed 40 times at random moments: the same bits (some minutes)
	@python -m tests.faults.soak $(ARGS)

lint: $(READY)  ## style (ruff) and layers (import-linter)
	@status=0; ruff check --output-format concise . || status=1; lint-imports --no-logo || status=1; exit $$status

rules: $(READY)  ## every primitive and its rules, as a table
	@python -m distad.rules

bench: $(READY)  ## all benchmarks, into docs/benchmarks.md; or some: make bench ARGS='stencil --rounds 5'
	@python benchmarks/run.py $(ARGS)

# JAX needs a newer Python than distad does; TORCH='torch==...' names a build without CUDA where there is one.
TORCH ?= torch
bench-peers:  ## environments in benchmarks/.peers for what the benchmarks compare with: JAX, PyTorch, autograd
	@python=; for p in python3.14 python3.13 python3.12 python3; do command -v $$p > /dev/null && { python=$$p; break; }; done; \
	cd benchmarks && $$python -m venv .peers/jax && .peers/jax/bin/pip install -q jax && \
	python3 -m venv .peers/torch && .peers/torch/bin/pip install -q '$(TORCH)' numpy && \
	python3 -m venv .peers/autograd && .peers/autograd/bin/pip install -q autograd mpi4py mpich

setup: $(READY)  ## the virtual environment .venv with distad, its tools and, where there is no mpirun, MPICH

clean:  ## remove what these commands made, the virtual environment included
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# python3 may be an old one while a newer stands beside it.
$(READY): setup.cfg pyproject.toml
	@python=; for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && { python=$$p; break; }; done; \
	[ "$$python" ] || { echo "setup: distad needs Python 3.11 or newer"; exit 1; }; \
	if ! [ -x $(VENV)/bin/pip ]; then \
	  echo "setup: new virtual environment $(VENV) ($$($$python --version))"; \
	  $$python -m venv $(VENV) || { echo "setup: no venv module? On Debian: apt install python3-venv"; exit 1; }; fi
	@echo "setup: installing distad, its dependencies and its tools into $(VENV)"
	@pip install -qq --disable-pip-version-check -e '.[examples,test]'
	@if command -v mpirun > /dev/null && $(TWO_RANKS); then echo "setup: MPI is $$(command -v mpirun)"; else \
	  echo "setup: no mpirun that mpi4py can work with; installing MPICH into $(VENV)"; \
	  pip install -qq --disable-pip-version-check -e '.[mpich]' && $(TWO_RANKS) || { \
	  echo "setup: two ranks under $$(command -v mpirun) do not find each other"; exit 1; }; fi
	@touch $@

# Does this mpirun start ranks that know each other through the MPI that mpi4py loads?
TWO_RANKS = mpirun -n 2 python -c 'from mpi4py import MPI; raise SystemExit(MPI.COMM_WORLD.size != 2)' \
  < /dev/null > /dev/null 2>&1
