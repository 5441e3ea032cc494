# The project's commands; `make` alone lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
CODEGEN := .venv-codegen
DOCS := .venv-docs
# The build that the parity tests use. `make test TORCH=` goes without it; those tests then skip.
TORCH  ?= torch==2.13.0
PROTOS := $(wildcard proto/roost_proto/v1/*.proto)

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test check lint types imports units proto proto-check images compose-test deb crash-test fuzz bench clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup: $(BIN)/.roost ## create the virtual environment and install Roost into it

$(BIN)/.roost: pyproject.toml deploy/system-packages.sh
	@PYTHON=$(PYTHON) deploy/system-packages.sh
	@echo 'installing Roost into $(VENV), once: a minute or a few'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable '.[probe,daemon,cli,sim]'
	@touch $@

# Most of what torch and ray bring is never imported: what is gets compiled then.
$(BIN)/.roost-dev: $(BIN)/.roost
	@$(BIN)/python -m pip install --quiet --no-compile --group dev $(if $(TORCH),$(TORCH) 'onnx>=1.18' 'scikit-learn>=1.5')
	@touch $@

demo: $(BIN)/.roost ## run 20 jobs on a throw-away Slurm cluster of 32 fake GPUs and watch the choices
	@$(BIN)/roost-demo

test: $(BIN)/.roost-dev ## install what the tests need and run all of them, on real Slurm where it can be
	@$(BIN)/python -m pytest -n 7 --dist loadfile

check: lint types imports proto-check test ## everything that must hold before a commit

lint: $(BIN)/.roost-dev ## style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# A virtual environment for one tool; the pip of the first one installs into it.
tool_venv = test -x $(1)/bin/python || $(PYTHON) -m venv --without-pip $(1); \
	$(BIN)/python -m pip --python $(1)/bin/python install --quiet --no-compile --group $(2)

$(DOCS)/bin/.ready: pyproject.toml | $(BIN)/.roost
	@$(call tool_venv,$(DOCS),docs)
	@touch $@

docs: $(DOCS)/bin/.ready ## build the documentation site into build/docs; a warning is an error
	@$(DOCS)/bin/sphinx-build -q -W --keep-going -b html docs build/docs

types: $(BIN)/.roost-dev ## types, strictly
	@$(BIN)/mypy

imports: $(BIN)/.roost-dev ## which package may import which
	@$(BIN)/lint-imports

generate = rm -f $(1)/roost_proto/v1/*_pb2* && \
	PATH="$(CURDIR)/$(CODEGEN)/bin:$$PATH" $(CODEGEN)/bin/python -m grpc_tools.protoc -I proto --python_out=$(1) \
	    --grpc_python_out=$(1) --mypy_out=quiet:$(1) --mypy_grpc_out=quiet:$(1) $(PROTOS)

# The code generator is pinned low, so that its output runs on old and new protobuf alike; it would
# pull the protobuf of the environment down with it.
$(CODEGEN)/bin/.ready: pyproject.toml | $(BIN)/.roost
	@$(call tool_venv,$(CODEGEN),codegen)
	@touch $@

proto: $(CODEGEN)/bin/.ready ## regenerate the protobuf code
	@$(call generate,proto)

proto-check: $(CODEGEN)/bin/.ready ## fail when the committed protobuf code is not what the .proto files say
	@rm -rf build/proto && mkdir -p build/proto
	@$(call generate,build/proto)
	@diff -r --exclude='*.proto' --exclude=__init__.py --exclude=__pycache__ build/proto/roost_proto/v1 proto/roost_proto/v1

images: $(BIN)/.roost ## build the images and packages of compose-test; the engine must run (deploy/compose/engine.sh up)
	@{ deploy/compose/build.sh bookworm debian slurm clean systemd && deploy/debian/build.sh bookworm; } & bookworm=$$!; \
	 { deploy/compose/build.sh trixie debian slurm clean systemd site && deploy/debian/build.sh trixie; } & trixie=$$!; \
	 deploy/compose/build.sh sid slurm site && wait $$bookworm && wait $$trixie

compose-test: $(BIN)/.roost-dev ## the real cluster in containers, on several releases of Slurm
	@deploy/compose/engine.sh with $(BIN)/python -m pytest -n 5 --dist loadfile -m compose tests/e2e

KILLS ?= 500
SEED ?= 1
CRASH_OPTIONS ?= # --control: the same kills of a Slurm without Roost
crash-test: $(BIN)/.roost-dev ## kill roostd, slurmctld, probes and slurmd KILLS=500 times, and check every job
	@$(BIN)/python -m tests.crash.crash_run --kills $(KILLS) --seed $(SEED) $(CRASH_OPTIONS)

SECONDS ?= 60
fuzz: $(BIN)/.roost-dev ## feed made-up input to every parser and service for SECONDS=60, then the same by coverage
	@$(BIN)/python -m tests.fuzz.fuzz --seconds $(SECONDS) --seed $(SEED)
	@$(BIN)/python -m pip install --quiet --group fuzz || echo "atheris does not install here"
	@$(BIN)/python -m tests.fuzz.guided --seconds $(SECONDS)

deb: $(BIN)/.roost-dev ## Debian packages for bookworm and trixie, in dist/
	@deploy/compose/engine.sh with deploy/debian/build.sh bookworm trixie

bench: $(BIN)/.roost-dev ## measure the bars; JSON to stdout
	@$(BIN)/python benchmarks/links.py --json
	@$(BIN)/python benchmarks/decide.py --nodes 1250 --json
	@$(BIN)/python benchmarks/decide.py --nodes 10000 --json
	@$(BIN)/python benchmarks/poll.py --json
	@$(BIN)/python benchmarks/latency.py --json

clean: ## remove what the other commands made
	@rm -rf $(VENV) $(CODEGEN) $(DOCS) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
