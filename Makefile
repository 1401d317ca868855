# Two commands do everything on a fresh machine: `make run` and `make test`.
# They need Python 3.11 or newer; `make test` also Node 20 and npm.

PYTHON ?= python3
BIN := .venv/bin
HOST_VERSION := 1.18.33
OLDER_HOSTS := 1.14.41 1.17.19
HOST_PACKAGE = opencode-$(shell node -p "process.platform.replace('win32', 'windows') + '-' + process.arch")
WORKERS ?= 2
FUZZ_SECONDS ?= 60
REQUESTS ?= 1000000

.PHONY: run test check unit shim host test-hosts bench fuzz soak format tools lock clean

run: .venv/installed
	$(BIN)/opencode-memory install
	$(BIN)/opencode-memory restart
	$(BIN)/opencode-memory status

test: check unit shim host

check: .venv/developed node_modules/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	npx tsc --project plugin-shim
	npx prettier --check plugin-shim 'tests/**/*.mjs'

unit: .venv/developed
	$(BIN)/pytest --numprocesses $(WORKERS) --ignore tests/shim --ignore tests/host

shim: .venv/developed node_modules/installed
	REQUIRE_OPENCODE=1 $(BIN)/pytest --numprocesses $(WORKERS) tests/shim

host: .venv/developed node_modules/installed
	REQUIRE_OPENCODE=1 $(BIN)/pytest --numprocesses $(WORKERS) tests/host

# The scenarios on every host of the README's table, which it renews; on today's host twenty random walks too.
test-hosts: .venv/developed node_modules/installed
	rm -f .hosts/*.json
	for version in $(OLDER_HOSTS); do \
	  test -d .hosts/$$version || npm install --prefix .hosts/$$version --no-save --no-package-lock \
	    --ignore-scripts $(HOST_PACKAGE)@$$version || exit; \
	  OPENCODE_BINARY=$(CURDIR)/.hosts/$$version/node_modules/$(HOST_PACKAGE)/bin/opencode HOST_RESULTS=.hosts/$$version.json \
	    REQUIRE_OPENCODE=1 $(BIN)/pytest --numprocesses $(WORKERS) tests/host/test_scenarios.py || failed=1; \
	done; \
	WALKS=20 HOST_RESULTS=.hosts/$(HOST_VERSION).json REQUIRE_OPENCODE=1 \
	  $(BIN)/pytest --numprocesses $(WORKERS) tests/host/test_scenarios.py tests/host/test_walk.py || failed=1; \
	$(BIN)/python -m tests.host.table; test -z "$$failed"

# What the README promises of speed. BENCH='--only 1', BENCH='--json FILE' and so on go to the program.
bench: .venv/developed node_modules/installed
	$(BIN)/python -m tests.bench $(BENCH)

# Inputs that nobody thought of, for so many seconds each; what fails is kept in `fuzz/`.
fuzz: .venv/developed node_modules/installed
	$(BIN)/python -m pip install --quiet --group fuzz
	for target in front_matter metadata_line damage requests; do \
	  $(BIN)/python -m tests.fuzz.coverage $$target $(FUZZ_SECONDS) || exit; \
	done
	BUN_BE_BUN=1 node_modules/$(HOST_PACKAGE)/bin/opencode run tests/fuzz/shim.mjs \
	  $$(date +%s) 1000000000 $(FUZZ_SECONDS)
	MEMORY_FUZZ_CASES=10000 $(BIN)/pytest --timeout 0 tests/faults/test_protocol.py

# A long run with 10,000 live sessions, which fails if memory grows, and a folder of 100,000 snapshots.
soak: .venv/developed
	$(BIN)/python -m tests.faults.soak $(REQUESTS) 10000
	MEMORY_SNAPSHOTS=100000 $(BIN)/pytest --timeout 600 tests/faults/test_disk.py -k very_many

format: .venv/developed node_modules/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	npx prettier --write plugin-shim 'tests/**/*.mjs'

# The agent's tools, from sidecar/tools.py into the shim.
tools: .venv/developed
	$(BIN)/python plugin-shim/generate_tools.py

# The development tools, as of today, for everybody.
lock: .venv/developed
	$(BIN)/pip install --upgrade --editable . --group dev
	$(BIN)/pip freeze --exclude-editable > dev-lock.txt
	npm install --package-lock-only

clean:
	rm -rf .venv node_modules

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m compileall -q sidecar snapshots
	touch $@

.venv/developed: .venv/installed dev-lock.txt
	$(BIN)/python -m pip install --quiet --editable . --group dev --constraint dev-lock.txt
	touch $@

# The lock file has the host for Linux on x64; for another platform it comes by its sibling's name.
node_modules/installed: package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund
	test -d node_modules/$(HOST_PACKAGE) || npm install --no-save --ignore-scripts $(HOST_PACKAGE)@$(HOST_VERSION)
	touch $@
