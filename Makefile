# `make demo` shows the main job on real MCP servers; `make test` passes the tests. Both set up their own .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STUBS ?= server

.PHONY: help demo test lint types bench stubs wheel clean
help:
	@grep -E '^# ?' Makefile | sed 's/^# \{0,1\}//'
	@echo 'Targets: demo test lint types bench stubs wheel clean'

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,dev]'
	touch $@

test: $(VENV)/installed
	$(BIN)/python -m pytest

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	cd proto && $(BIN)/buf lint

types: $(VENV)/installed
	$(BIN)/mypy

stubs: $(VENV)/installed
	PATH="$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iproto --python_out=$(STUBS) --grpc_python_out=$(STUBS) \
	  --mypy_out=$(STUBS) --mypy_grpc_out=$(STUBS) proto/callability/v1/*.proto

clean:
	rm -rf $(VENV) build dist

# Builds the wheel and asks it, in an empty environment outside the checkout, for a check and a decision.
wheel: $(VENV)/installed
	BIN="$(BIN)" PYTHON="$(PYTHON)" bash tests/wheel.sh
