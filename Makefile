# `make demo` runs the main job on real MCP servers, and `make test` passes the tests. Each sets everything up first, in a
# virtual environment of its own (.venv); needed are Python 3.11 or later with its headers and venv, git and a C compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STUBS_BIN := $(CURDIR)/$(VENV)/stubs/bin
STUBS ?= server
FUZZ ?= 60
FACTS ?= 1000000
FUZZ_RUNS ?= 1000
FUZZ_PAYLOADS ?= 3000
FUZZ_TABLES ?= 20000
ROUNDS ?= long
SOAK ?= 10
PIP := -m pip --quiet --disable-pip-version-check
# What is installed is locked by version and hash (make lock), and so is what builds a package that has no wheel.
# Python compiles what it imports, once; most modules of most packages never are.
INSTALL := install --no-compile --require-hashes --build-constraint ops/requirements/build.txt
UPGRADE ?= --upgrade
# Hundreds of processes start in the tests; without its bytecode, each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo unit test api coverage pythons rounds cpu setup lint types wheel bench soak client-soak facts fleet ops fuzz stubs go-stubs go-lint go-api go-vuln go-releases go-fuzz go-path client docs figure recording screenshot editor hooks lock clean
.DEFAULT_GOAL := help

help: ## Print what can be made.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

$(VENV)/installed: pyproject.toml ops/requirements/pip.txt ops/requirements/build.txt ops/requirements/dev.txt
	@echo 'Setting up $(VENV), which takes a minute or two'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) install --require-hashes --requirement ops/requirements/pip.txt
	$(BIN)/python $(PIP) $(INSTALL) --requirement ops/requirements/dev.txt
	$(BIN)/python $(PIP) install --no-deps --build-constraint ops/requirements/build.txt --editable .
	touch $@

# The generator of the stubs is older than what the program runs with, so it has an environment of its own.
$(VENV)/stubs/installed: ops/requirements/pip.txt ops/requirements/build.txt ops/requirements/stubs.txt
	$(PYTHON) -m venv $(VENV)/stubs
	$(STUBS_BIN)/python $(PIP) install --require-hashes --requirement ops/requirements/pip.txt
	$(STUBS_BIN)/python $(PIP) $(INSTALL) --requirement ops/requirements/stubs.txt
	touch $@

# Where there is no Node to be had, everything else is set up, and the tests that need it are skipped.
$(VENV)/node/installed: $(VENV)/installed tests/node/install.sh tests/node/package.json tests/node/package-lock.json \
  ops/requirements/node.txt
	BIN="$(BIN)" bash tests/node/install.sh $(VENV)/node || echo 'Node is not set up: tests that need it are skipped' >&2

# The same holds for the browser.
$(VENV)/browser: tests/browser/install.sh
	bash tests/browser/install.sh
	mkdir -p $(VENV)
	touch $@

# Where there is no build of the fuzzer, everything else is set up, and the test that needs it is skipped. One pip at a
# time changes an environment.
$(VENV)/fuzz: $(VENV)/installed ops/requirements/fuzz.txt | $(VENV)/node/installed
	$(BIN)/python $(PIP) install --require-hashes --only-binary :all: --requirement ops/requirements/fuzz.txt \
	  || echo 'The fuzzer is not set up: the test that needs it is skipped' >&2
	touch $@

# The same holds for what runs and checks the files in ops/.
$(VENV)/ops: $(VENV)/installed tests/ops/install.sh ops/requirements/ops.txt | $(VENV)/fuzz
	BIN="$(BIN)" bash tests/ops/install.sh
	touch $@

# Several processes run the tests, and each would compile them at its start.
$(VENV)/collected: $(VENV)/installed
	$(BIN)/python -m pytest -q --collect-only >$@.txt 2>&1 || { cat $@.txt; exit 1; }
	mv $@.txt $@

# Helm is built, which takes minutes.
$(VENV)/bin/helm: | $(VENV)/installed
	GOBIN="$(BIN)" go install helm.sh/helm/v3/cmd/helm@v3.19.0

# `make demo DEMO=--verbose` prints the JSON of every answer too.
demo: $(VENV)/installed ## Set up, and show how a tool is refused, unlocked and called, on real MCP servers.
	PYTHONPATH=examples $(BIN)/python -m demo $(DEMO)

unit: $(VENV)/installed ## Set up, and run the tests that need no process.
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --hypothesis-profile=quick tests/unit

setup: $(VENV)/installed $(VENV)/stubs/installed $(VENV)/node/installed $(VENV)/browser $(VENV)/fuzz $(VENV)/ops $(VENV)/collected ## Set up for every test.

# `TEST="-m 'not repeated'"` leaves out what other targets of `.ci/run` and `.ci/nightly` do more of.
test: setup ## Set up, and run the tests.
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(TEST)

coverage: setup ## Measure the lines and branches that tests reach, in child processes too, and compare with the gates of packages.
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/python -m coverage run -m pytest -q -n 3 --dist loadfile --hypothesis-profile=quick \
	  tests/unit tests/process/client tests/process/bundle
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage json --quiet -o build/coverage/report.json
	PYTHONPATH=tests $(BIN)/python -m support.coverage_gates build/coverage/report.json

# What each Python lacks is installed once, and one that is not on this machine is skipped.
pythons: $(VENV)/installed $(VENV)/lock/installed ## Run the unit tests on the other supported Pythons, and with the lowest allowed versions.
	BIN="$(BIN)" UV="$(CURDIR)/$(VENV)/lock/bin/uv" ENVIRONMENTS="$(CURDIR)/$(VENV)" bash tests/other_pythons.sh

# A round is bounded by its number of examples; `ROUNDS=nightly` draws ten times as many as the tests. `make fuzz` draws
# more hostile files.
rounds: $(VENV)/installed ## Draw twice as many examples for each law of policies and for both languages, and swap policies under load for longer.
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --hypothesis-profile=$(ROUNDS) -m hypothesis tests/unit/policy \
	  --ignore tests/unit/policy/test_hostile_files.py
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --hypothesis-profile=$(ROUNDS) tests/process/bundle/test_two_readers.py \
	  tests/process/project/test_go_decisions.py tests/process/client/test_drawn_facts.py
	$(BIN)/python -m pytest -q -n 0 --hypothesis-profile=long -k swaps tests/process/service/test_policy_edits.py

# `make cpu CPU=unit` measures one of the two, and `CPU=ci` measures `.ci/run`.
cpu: setup ## Measure the CPU of `make unit` and `make test`, and record it in tests/cpu_baseline.json.
	PYTHONPATH=tests $(BIN)/python -m support.cpu_baseline $(CPU)

lint: $(VENV)/installed ## Check the style of code and contract.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	cd proto && $(BIN)/buf lint
	bash tests/go/lint.sh

types: $(VENV)/installed ## Check the types.
	$(BIN)/mypy

wheel: $(VENV)/installed ## Build the wheel, and ask it for a decision in an empty environment outside the checkout.
	BIN="$(BIN)" PYTHON="$(PYTHON)" bash tests/wheel.sh

# All load stays on 127.0.0.1. `BENCH="--only look-up"` measures a part.
bench: $(VENV)/installed ## Measure what decisions cost, in about twenty minutes.
	$(BIN)/python -m bench $(BENCH)

# `SOAK=1` is for one minute. The seed of the faults is printed; `FAULTS=1` draws the same ones again.
soak: $(VENV)/installed $(VENV)/ops ## Let faults happen to three replicas under load for ten minutes, and compare every answer.
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(SOAK) $(if $(FAULTS),--seed $(FAULTS))

# `CLIENT_SOAK="--kills 2 --stops 1"` is a short one.
client-soak: $(VENV)/installed ## Kill and stop two replicas under local and remote callers, and time how an edit arrives.
	PYTHONPATH=tests $(BIN)/python -m support.client_soak $(CLIENT_SOAK)

# `FACTS=10000` is a quick look. A million for each policy take half an hour of one processor.
facts: $(VENV)/installed ## Compare the reference evaluator, a local client and a service about a million drawn facts a policy.
	PYTHONPATH=tests $(BIN)/python -m support.drawn_facts --count $(FACTS)

# `FUZZ=600` is for ten minutes. What is found is left in build/fuzz, and so are the inputs that reach something new.
# `SEED=1` tries the same inputs each time, a fixed number of them: what fails then fails again.
fuzz: $(VENV)/fuzz ## Fuzz the readers of rule files, of bundles and of Arrow files, a minute each.
	mkdir -p build/fuzz/inputs build/fuzz/bundles build/fuzz/bundle-seeds
	if $(BIN)/python -c 'import atheris'; then \
	  $(if $(SEED),PYTHONHASHSEED=0) $(BIN)/python tests/fuzzing/rule_files.py build/fuzz/inputs tests/fuzzing/seeds -dict=tests/fuzzing/words.dict \
	    $(if $(SEED),-seed=$(SEED) -runs=$(FUZZ_RUNS),-max_total_time=$(FUZZ)) -max_len=4096 -timeout=30 -rss_limit_mb=1024 -artifact_prefix=build/fuzz/ && \
	  $(BIN)/python tests/fuzzing/bundles.py --seeds build/fuzz/bundle-seeds && \
	  $(if $(SEED),PYTHONHASHSEED=0) $(BIN)/python tests/fuzzing/bundles.py build/fuzz/bundles build/fuzz/bundle-seeds \
	    $(if $(SEED),-seed=$(SEED) -runs=$(FUZZ_PAYLOADS),-max_total_time=$(FUZZ)) -max_len=8192 -timeout=30 -rss_limit_mb=1024 -artifact_prefix=build/fuzz/; \
	else echo 'The fuzzer is not set up: only what Hypothesis draws is tried' >&2; fi
	$(BIN)/python tests/fuzzing/arrow_files.py tests/fuzzing/arrow --found build/fuzz/arrow \
	  $(if $(SEED),--seed $(SEED) --runs $(FUZZ_TABLES),--seconds $(FUZZ))
	CALLABILITY_FUZZ=$(if $(SEED),1,5) $(BIN)/python -m pytest -q $(if $(SEED),--hypothesis-seed=$(SEED)) tests/unit/policy/test_hostile_files.py tests/process/service/test_hostile_edits.py

stubs: $(VENV)/stubs/installed ## Generate the Python stubs of the contract.
	PATH="$(STUBS_BIN):$$PATH" $(STUBS_BIN)/python -m grpc_tools.protoc -Iproto --python_out=$(STUBS) --mypy_out=$(STUBS) \
	  proto/callability/v1/*.proto proto/callability/bundle/v1/*.proto
	PATH="$(STUBS_BIN):$$PATH" $(STUBS_BIN)/python -m grpc_tools.protoc -Iproto --grpc_python_out=$(STUBS) \
	  --mypy_grpc_out=$(STUBS) proto/callability/v1/*_service.proto

# The tools are built from the versions that clients/go/tools/go.mod pins.
$(VENV)/go/installed: clients/go/tools/go.mod clients/go/tools/go.sum
	cd clients/go/tools && GOWORK=off go build -o $(CURDIR)/$(VENV)/go/ tool
	touch $@

GO_MODULE := $(shell sed -n 's/^module //p' clients/go/go.mod)
GO_STUBS ?= clients/go/remote

go-stubs: $(VENV)/go/installed $(VENV)/stubs/installed ## Generate the Go stubs of the contract.
	PATH="$(CURDIR)/$(VENV)/go:$$PATH" $(STUBS_BIN)/python -m grpc_tools.protoc -Iproto \
	  --go_out=$(GO_STUBS) --go_opt=module=$(GO_MODULE)/remote \
	  --go-grpc_out=$(GO_STUBS) --go-grpc_opt=module=$(GO_MODULE)/remote \
	  proto/callability/v1/*.proto proto/callability/bundle/v1/*.proto

go-lint: $(VENV)/go/installed ## Check the Go modules with gofmt, vet (for every system that they are built for) and staticcheck.
	test -z "$$(gofmt -l clients/go examples/go | tee /dev/stderr)"
	for module in clients/go clients/go/remote clients/go/mcpgo clients/go/mark3labs; do \
	  for system in linux darwin windows; do (cd $$module && CGO_ENABLED=0 GOOS=$$system go vet ./...) || exit 1; done; \
	  (cd $$module && $(CURDIR)/$(VENV)/go/staticcheck ./...) || exit 1; done

# At v0 a minor version may change them, and the changelog says which.
SINCE ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)
go-api: $(VENV)/go/installed ## Print how the exported names of the Go modules changed since the last release, or SINCE.
	bash tests/go/api_changes.sh "$(SINCE)"

# It fetches the database of the Go project, or reads a copy of it: `GO_VULN=file:///DIRECTORY`.
GO_VULN ?=
go-vuln: $(VENV)/go/installed ## Look for known vulnerabilities that the code of the Go modules reaches.
	for module in clients/go clients/go/remote clients/go/mcpgo clients/go/mark3labs examples/go; do \
	  (cd $$module && $(CURDIR)/$(VENV)/go/govulncheck $(if $(GO_VULN),-db $(GO_VULN)) ./...) || exit 1; done

# A release that is not on this machine is fetched by the go command, through its proxy.
GO_RELEASES ?= go1.26.8 go1.27.0
go-releases: ## Run the tests of the Go modules with the last two releases of Go.
	for release in $(GO_RELEASES); do for module in clients/go clients/go/remote clients/go/mcpgo clients/go/mark3labs; do \
	  echo "$$release, $$module" && (cd $$module && GOTOOLCHAIN=$$release go test ./...) || exit 1; done; done

# Interesting inputs are large, and to make each smaller would take most of the time.
GO_FUZZ ?= 10000000x
go-fuzz: ## Fuzz the reader of bundles in Go, by ten million executions; `GO_FUZZ=10m` is for ten minutes.
	cd clients/go && go test -run '^$$' -fuzz FuzzReadPolicy -fuzztime $(GO_FUZZ) -fuzzminimizetime 10x -timeout 0 ./callability

# `make go-path NEW=example.com/org/repo/clients/go` moves the Go modules: run it once, before the first release. Generated
# code holds the path with its length, so it is generated again.
go-path: ## Rewrite the path of the Go modules everywhere.
	test -n "$(NEW)"
	git grep -IlF '$(GO_MODULE)' -- ':!*.pb.go' ':!*_pb2.py' | xargs sed -i 's#$(GO_MODULE)\b#$(NEW)#g'
	$(MAKE) stubs go-stubs
	gofmt -w clients/go examples/go

client: $(VENV)/installed ## Generate the Python client for threads from the one for asyncio.
	PYTHONPATH=tests $(BIN)/python -m support.blocking_client

docs: $(VENV)/installed ## Generate the pages about the config and the findings, the schemas, and the answers in the page for agents.
	PYTHONPATH=tests $(BIN)/python -m support.package_drawing
	PYTHONPATH=tests $(BIN)/python -m support.findings_page
	$(BIN)/callability schema config --markdown > docs/config.md
	$(BIN)/callability schema config > docs/mcp_config.schema.json
	$(BIN)/callability schema policy policy/schema
	$(BIN)/callability schema records > docs/record.schema.json
	PYTHONPATH=tests $(BIN)/python -m support.agent_examples docs/agents.md

api: $(VENV)/installed ## Write the reference of the Python API to build/api.md, from the docstrings.
	mkdir -p build
	PYTHONPATH=tests $(BIN)/python -m support.api_page build/api.md

# About 1.8 GB of packages, and Java 17 for Spark, so that `make test` does without. `FLEET_ROWS=10000000` is the full size;
# PostgreSQL decides the first 200,000 rows.
fleet: $(VENV)/fleet/installed ## Compare Spark, Ray, DuckDB and PostgreSQL with the verdicts of tables, and 10,000 drawn policies with columns.
	$(BIN)/python -m pytest -q -n 2 --hypothesis-profile=engines -k drawn tests/unit/columns/test_columns.py
	PYTHONPATH=server $(CURDIR)/$(VENV)/fleet/bin/python -m pytest -q -p no:cacheprovider --noconftest --rootdir tests/engines -c /dev/null tests/engines

$(VENV)/fleet/installed: $(VENV)/installed ops/requirements/pip.txt ops/requirements/build.txt ops/requirements/fleet.txt
	$(PYTHON) -m venv $(VENV)/fleet
	$(CURDIR)/$(VENV)/fleet/bin/python $(PIP) install --require-hashes --requirement ops/requirements/pip.txt
	$(CURDIR)/$(VENV)/fleet/bin/python $(PIP) $(INSTALL) --requirement ops/requirements/fleet.txt
	touch $@

# It needs Go for Helm, and root with Debian's buildah and mmdebstrap for the image.
ops: setup $(VENV)/bin/helm ## Check the Helm chart, and build the image of the container and ask it for its health.
	CALLABILITY_IMAGE=1 $(BIN)/python -m pytest -q -n 0 tests/process/project/test_chart.py tests/process/project/test_container_image.py

# After `make bench BENCH="--json build/bench.json"`.
figure: $(VENV)/installed ## Draw the measured figures as the picture in the README, and keep their medians.
	$(BIN)/python -m bench.figure build/bench.json docs/bench.svg --medians docs/bench.json

recording: $(VENV)/installed ## Run the demonstration, and write its output as the picture in the README.
	PYTHONPATH=examples $(BIN)/python -m demo --svg docs/demo.svg

screenshot: $(VENV)/installed $(VENV)/browser ## Take the picture of `callability studio` for its page.
	PYTHONPATH=tests $(BIN)/python -m support.studio_screenshot docs/studio.png

# It needs npm, which nothing else here does: the bundle is committed with its hash and its licences.
editor: ## Bundle the text editor of the studio from its locked packages.
	bash server/editor/bundle.sh $(CURDIR)/$(VENV)/editor

$(VENV)/lock/installed: ops/requirements/pip.txt ops/requirements/lock.txt
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python $(PIP) install --require-hashes --requirement ops/requirements/pip.txt
	$(VENV)/lock/bin/python $(PIP) install --require-hashes --requirement ops/requirements/lock.txt
	touch $@

hooks: $(VENV)/installed ## Check style, contract and types before each commit (pre-commit).
	$(BIN)/pre-commit install

# `make lock UPGRADE=` keeps every version that still fits, for after an edit of pyproject.toml.
lock: $(VENV)/lock/installed ## Lock the newest versions that pyproject.toml allows, with their hashes, for every supported Python.
	UV="$(CURDIR)/$(VENV)/lock/bin/uv" bash ops/requirements/lock.sh $(UPGRADE)

clean: ## Remove what was made.
	rm -rf $(VENV) build dist
