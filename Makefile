# The project's commands. `make help` lists them.
VENV   ?= .venv
BIN    := $(VENV)/bin
PROTOS := roost_proto/v1/telemetry.proto roost_proto/v1/placement.proto roost_proto/v1/operator.proto

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types imports proto proto-check compose-test bench clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
