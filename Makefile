# Everything here works with git, make and Python 3.11 or newer; the rest is installed into .venv.

PYTHON ?= python3
VENV := .venv
# Builds of the same Python differ in speed by a third. The fastest one on this machine makes the
# environment, unless one is named.
VENV_PYTHON = $(or $(if $(filter file,$(origin PYTHON)),$(shell $(PYTHON) -m scripts.interpreters 2>/dev/null)),$(PYTHON))
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCK := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes \
	--allow-unsafe --no-strip-extras --no-emit-index-url --no-emit-find-links \
	--no-emit-trusted-host
LOCK_OURS := $(LOCK) --build-deps-for editable
# The folders with code. The type checker fails on a folder without a Python file.
CODE := $(foreach d,src tests clients bench scripts examples,$(if $(shell find $(d) -name "*.py" -print -quit 2>/dev/null),$(d)))
TEST_DATA := .test-data
# The embedded store waits for the disk at every commit, which would take most of the time of the
# tests. No test depends on a real disk, so their folder is in memory if there is room.
MEMORY_KIB := $(lastword $(shell df -k --output=avail /dev/shm 2>/dev/null))
ROOM_KIB := 4000000
TEST_FOLDER := $(if $(shell [ "$(MEMORY_KIB)" -gt $(ROOM_KIB) ] 2>/dev/null && echo yes),/dev/shm/tidings-test-$(firstword $(shell echo "$(CURDIR)" | cksum)),$(TEST_DATA))
# Tests wait for other programs or for a time out, so three workers keep two cores busy. Each runs
# one file at a time, in the order of the folders, which ends with the short ones.
BY_FILE := --dist=loadfile --no-loadscope-reorder
SIDE_BY_SIDE := --numprocesses=3 $(BY_FILE)
# In a new clone the tests are compiled before they run, once; otherwise each worker would compile
# all of them.
FIRST_TIME := $(if $(wildcard tests/unit/__pycache__),,compiled-tests)
# The other folders have no test that runs without a service or a process.
QUICK_FOLDERS := tests/contract tests/model tests/tidy tests/unit clients/python/tests
PYTEST := $(BIN)/python -m pytest
# Tests must reach every branch of the packages that can be tested without a server.
COVERS_LOGIC := $(BIN)/coverage report --fail-under=100 \
	--include="src/tidings/model/*,src/tidings/actions/*,src/tidings/wire/*"
SERVICES := $(BIN)/python -m scripts.services
ARGS ?=
# Whoever says where to listen may let others in, and the demo is for this machine alone.
DEMO ?= $(if $(findstring --host,$(ARGS)),,--demo)

# Tests start hundreds of processes, and each would compile the whole program without this cache.
export PYTHONDONTWRITEBYTECODE :=

# Stamps: present and newer than the lock means installed.
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
AUDIT_VENV := .venv-audit
AUDIT := $(AUDIT_VENV)/.installed
DOCS_VENV := .venv-docs
DOCS := $(DOCS_VENV)/.installed
SITE := .site

.DEFAULT_GOAL := help
.PHONY: help run test tested obtained-services compiled-tests quick quick-coverage coverage check lint types format generate hooks docs bench bench-peers soak services \
	services-stop lock sbom audit clean

help: ## List all targets
	@awk -F ":.*## " '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(RUNTIME) ## Start the server, with demo people (ARGS="--port 9000" for more, DEMO= for none)
	@exec $(BIN)/tidings serve $(DEMO) $(ARGS)

# The type checker needs a minute of one core. It runs beside the tests, which wait now and then.
test: $(DEV) ## Check, and run the tests
	@$(MAKE) --no-print-directory --jobs=3 types tested

tested: lint obtained-services $(FIRST_TIME)
	@rm -rf $(TEST_FOLDER)
	$(PYTEST) $(SIDE_BY_SIDE) --basetemp=$(TEST_FOLDER) --junitxml=.test-results.xml --durations=15 $(ARGS)
	@echo && $(BIN)/python scripts/what_ran.py .test-results.xml
	$(BIN)/python tests/canary_scan.py $(TEST_FOLDER)
	@rm -rf $(TEST_FOLDER)

obtained-services: $(DEV)
	@$(SERVICES) obtain

compiled-tests: $(DEV)
	-@$(BIN)/python -m pytest --collect-only -qq > /dev/null

quick: $(DEV) ## Run the tests that start no service and no process: about a minute on a fast machine
	$(PYTEST) $(SIDE_BY_SIDE) --quick --basetemp=$(TEST_FOLDER)-quick $(or $(ARGS),$(QUICK_FOLDERS))
	@rm -rf $(TEST_FOLDER)-quick

quick-coverage: $(DEV) ## Run quick and the tests of all verbs; fail unless they reach every branch of the logic
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(SIDE_BY_SIDE) --in-process --basetemp=$(TEST_FOLDER)-quick $(ARGS)
	@rm -rf $(TEST_FOLDER)-quick
	@$(BIN)/coverage combine --quiet
	$(COVERS_LOGIC)

coverage: $(DEV) ## Run test, and list the lines that no test reaches; takes half as long again
	@$(BIN)/coverage erase
	$(MAKE) test PYTEST="$(BIN)/coverage run -m pytest"
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	$(COVERS_LOGIC)

check: lint types ## Check the code without running it: format, lint, imports, types

lint: $(DEV)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports --no-logo

types: $(DEV)
	$(BIN)/mypy $(CODE)

format: $(DEV) ## Format the code
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

generate: $(DEV) ## Write the generated files: parts of pages, and the files in deploy
	$(BIN)/python -m scripts.write_generated
	$(BIN)/python -m tests.attacks.page

hooks: $(DEV) ## Install the git hooks that check your commits (.pre-commit-config.yaml)
	$(BIN)/pre-commit install

docs: $(DOCS) ## Build the documentation as a site in .site, and check every link
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict $(ARGS)
	@echo "Open $(SITE)/index.html"

bench: $(DEV) ## Measure speed; writes a table, JSON and a chart to .bench
	$(BIN)/python -m bench $(ARGS)

bench-peers: $(DEV) ## Measure other servers too: ejabberd, Centrifugo, Tinode, NATS (uses apt and Go, as root)
	$(BIN)/python -m bench.peers $(ARGS)

soak: $(DEV) ## Run the long tests
	SOAK=1 $(BIN)/python -m pytest -m soak --timeout=0 --basetemp=$(TEST_DATA) $(ARGS)

services: | $(BIN)/python ## Start DynamoDB Local, Kafka, Redis and ElasticMQ on unusual ports
	@$(SERVICES) start

services-stop: | $(BIN)/python ## Stop the services that `make services` started
	@$(SERVICES) stop

lock: $(DEV) ## Resolve the dependencies again (ARGS=--upgrade for newer ones)
	$(LOCK_OURS) $(ARGS) --extra chat --extra email --extra push --extra scale --output-file requirements.lock pyproject.toml
	$(LOCK_OURS) $(ARGS) --extra chat --extra email --extra push --extra scale --extra traces --constraint requirements.lock --output-file requirements-traces.lock pyproject.toml
	$(LOCK_OURS) $(ARGS) --extra chat --extra email --extra push --extra scale --extra traces --extra dev --constraint requirements-traces.lock --output-file requirements-dev.lock pyproject.toml
	$(LOCK) $(ARGS) --output-file requirements-audit.lock scripts/audit.in
	$(LOCK) $(ARGS) --output-file requirements-docs.lock scripts/docs.in

sbom: | $(BIN)/python ## Write sbom.json, a bill of materials in the CycloneDX format
	@$(BIN)/python -m scripts.sbom $(ARGS)

audit: $(AUDIT) ## Look for known vulnerabilities in the dependencies; needs the internet
	@$(BIN)/python -m scripts.audit $(AUDIT_VENV)/bin/pip-audit

clean: ## Remove the files of builds and tests (your data folder stays)
	$(if $(wildcard .services/running),-@$(PYTHON) -m scripts.services stop)
	rm -rf $(VENV) $(AUDIT_VENV) $(DOCS_VENV) $(SITE) sbom.json $(TEST_DATA) $(TEST_FOLDER) .services .bench .test-results.xml .coverage .coverage.* htmlcov build dist
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .schemathesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Tidings needs Python 3.11 or newer, and \"$(PYTHON)\" is not that." >&2; \
		echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@python="$(VENV_PYTHON)"; echo "Making $(VENV) with $$python ..."; \
		"$$python" -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Could not make a virtual environment; on Debian or Ubuntu install python3-venv." >&2; exit 1; }

# Servers and tests import a part of these packages: what they do not import need not be compiled.
$(RUNTIME): requirements.lock pyproject.toml src/tidings/__init__.py | $(BIN)/python
	@echo "Installing the packages of Tidings ..."
	@$(PIP) install --quiet --require-hashes -r requirements.lock --no-compile
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable . --editable clients/python
	@touch $@

$(DEV): requirements-dev.lock pyproject.toml src/tidings/__init__.py | $(BIN)/python
	@echo "Installing the packages for development ..."
	@$(PIP) install --quiet --require-hashes -r requirements-dev.lock --no-compile
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable . --editable clients/python
	@touch $@

# The audit has many libraries of its own, which stay out of the environment of the tests.
$(AUDIT): requirements-audit.lock | $(BIN)/python
	@echo "Installing the packages for the audit ..."
	@$(PYTHON) -m venv $(AUDIT_VENV)
	@$(AUDIT_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements-audit.lock
	@touch $@

$(DOCS): requirements-docs.lock | $(BIN)/python
	@echo "Installing the packages for the site ..."
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements-docs.lock
	@touch $@
