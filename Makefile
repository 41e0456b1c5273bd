# `make demo` runs the main job on real MCP servers, and `make test` passes the tests. Each sets everything up first, in a
# virtual environment of its own (.venv); needed are Python 3.11 or later with its headers and venv, git and a C compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STUBS ?= server

.PHONY: help demo test lint types wheel bench stubs docs clean
.DEFAULT_GOAL := help

help: ## Print what can be made.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' Makefile

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,dev]'
	touch $@

# Where there is no Node to be had, everything else is set up, and the tests that need it are skipped.
$(VENV)/node/installed: $(VENV)/installed tests/node/install.sh tests/node/package.json tests/node/package-lock.json
	BIN="$(BIN)" bash tests/node/install.sh $(VENV)/node || echo 'Node is not set up: tests that need it are skipped' >&2

demo: $(VENV)/installed ## Set up, and show the main job on real MCP servers, step by step.
	$(BIN)/python -m demo

test: $(VENV)/installed $(VENV)/node/installed ## Set up, and run the tests.
	$(BIN)/python -m pytest -n 4 --dist loadfile

lint: $(VENV)/installed ## Check the style of code and contract.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	cd proto && $(BIN)/buf lint

types: $(VENV)/installed ## Check the types.
	$(BIN)/mypy

wheel: $(VENV)/installed ## Build the wheel, and ask it for a decision in an empty environment outside the checkout.
	BIN="$(BIN)" PYTHON="$(PYTHON)" bash tests/wheel.sh

# All load stays on 127.0.0.1. `BENCH="--only look-up"` measures a part.
bench: $(VENV)/installed ## Measure what decisions cost, in about ten minutes.
	$(BIN)/python -m bench $(BENCH)

stubs: $(VENV)/installed ## Generate the Python stubs of the contract anew.
	PATH="$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iproto --python_out=$(STUBS) --mypy_out=$(STUBS) \
	  proto/callability/v1/*.proto
	PATH="$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iproto --grpc_python_out=$(STUBS) --mypy_grpc_out=$(STUBS) \
	  proto/callability/v1/*_service.proto

docs: $(VENV)/installed ## Generate the pages about the config, the schemas, and the answers in the page for agents, anew.
	$(BIN)/callability schema config --markdown > docs/config.md
	$(BIN)/callability schema config > docs/mcp_config.schema.json
	$(BIN)/callability schema policy policy/schema
	$(BIN)/python tests/agent_examples.py docs/agents.md

clean: ## Remove what was made.
	rm -rf $(VENV) build dist
