# demo  a real session with the wardle example: nothing needs to be installed by hand but Python 3.11 or later
# test  what a change has to pass, in seven minutes on two cores; test-system, the same of whole processes: real clients,
#       a browser, several servers, faults; test-fast, in three minutes, what starts no process; test-all, everything
#       there is to test, with many more examples and faults; test-pythons, what depends on the version of Python on
#       every other Python of this machine; lint, the rules of the house
# bench the figures in one table (docs/performance.md); bench-all, every benchmark there is
# docs  the site of the documentation in build/site; links that lead nowhere end it
# conformance  suites of others and recordings of real servers, as far as they are at hand: docs/conformance.md
# dist  wheel and source archive, each installed and tested in a fresh environment, bill of materials, versions tested
# console        what is in src/oarlock/server/console/assets, of the sources in console/; needs Node, and so does
# console-check, types, rules and units of those sources
# ARGS  go to pytest or the table: make test ARGS="-k kubectl --durations=20", make bench ARGS="get-http1 --record"

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python

# Tests start many processes: what is compiled once is kept, also where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE

# Half as many again as there are cores: tests wait for servers, databases and clients that they start.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); n=$$((n + n / 2)); echo $$((n > 8 ? 8 : n)))

PYTEST := $(RUN) -m pytest -n $(WORKERS) --dist worksteal

.PHONY: conformance console console-check dist docs node browser demo test test-all test-fast test-pythons test-system lint bench bench-all kubectl databases clean

demo: $(VENV)/installed
	@$(RUN) tools/demo.py

SYSTEM := tests/clients tests/console tests/faults tests/several

test: $(VENV)/installed-dev kubectl databases
	$(PYTEST) $(addprefix --ignore=,$(SYSTEM)) $(ARGS)

test-system: $(VENV)/installed-dev kubectl databases browser
	$(PYTEST) $(SYSTEM) $(ARGS)

test-all: $(VENV)/installed-dev kubectl databases browser
	OARLOCK_THOROUGH=1 $(PYTEST) --timeout 1200 $(ARGS)

test-fast: $(VENV)/installed-dev
	$(PYTEST) -m "not slow" $(ARGS) tests/unit tests/walk tests/house

test-pythons: $(VENV)/installed-dev
	$(RUN) tools/other_pythons.py $(ARGS)

lint: $(VENV)/installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy src examples
	$(VENV)/bin/lint-imports --no-cache

bench: $(VENV)/installed-dev
	@$(RUN) benchmarks/side_by_side.py $(ARGS)

bench-all: $(VENV)/installed-dev
	@for file in benchmarks/*.py; do echo "== $$file"; $(RUN) $$file || exit 1; done

docs: $(VENV)/installed-docs
	$(RUN) tools/docs_site.py

dist: $(VENV)/installed-dist
	$(RUN) tools/dist.py

conformance: $(VENV)/installed-dev kubectl
	$(RUN) tools/conformance/run.py $(ARGS)

# Some tests use kubectl when there is one; without it they say so and are skipped.
kubectl:
	@command -v kubectl >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
		apt-get install -y -qq kubernetes-client || { apt-get update -qq && apt-get install -y -qq kubernetes-client; }; \
	} >/dev/null 2>&1; } || echo "no kubectl here: the tests that need it are skipped"

# Tests of stores start databases of their own, on free ports of 127.0.0.1. What the packages may start isn't used.
DATABASES := postgresql mariadb-server etcd-server etcd-client

databases:
	@for program in /usr/lib/postgresql/*/bin/postgres mariadbd etcd etcdctl; do \
		PATH="$$PATH:/usr/sbin" command -v $$program >/dev/null || missing=1; done; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq $(DATABASES) || { apt-get update -qq && apt-get install -y -qq $(DATABASES); }; \
	} >/dev/null 2>&1; } || echo "not all of $(DATABASES) are here: the tests that need one are skipped"

# Some tests look at the console with a browser.
browser:
	@{ command -v chromium && command -v certutil; } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
		export DEBIAN_FRONTEND=noninteractive packages="chromium libnss3-tools"; \
		apt-get install -y -qq $$packages || { apt-get update -qq && apt-get install -y -qq $$packages; }; \
	} >/dev/null 2>&1; } || echo "no chromium or no certutil here: the tests that need them are skipped"

# The console's assets are in the repository: only who changes their sources needs Node, and its package manager.
node:
	@command -v npm >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq nodejs npm || { apt-get update -qq && apt-get install -y -qq nodejs npm; }; \
	} >/dev/null 2>&1; } || echo "no npm here: the console's sources aren't checked"

NODE_IS_HERE := command -v npm >/dev/null && node -e 'process.exit(+process.versions.node.split(".")[0] < 20 ? 1 : 0)'

console/node_modules/.package-lock.json: console/package-lock.json
	cd console && npm ci --no-audit --no-fund --silent

console: node
	@$(MAKE) --no-print-directory console/node_modules/.package-lock.json
	cd console && npm run --silent build

console-check: node
	@if $(NODE_IS_HERE) && $(MAKE) --no-print-directory console/node_modules/.package-lock.json; then \
		cd console && npm run --silent check; \
	else echo "no Node 20 or no packages here: the console's sources aren't checked"; fi

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed: install it, or say make PYTHON=/path/to/python"; exit 1; }
	@echo "Making an environment of $(PYTHON) in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	@$(RUN) tools/install.py $(VENV) .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	@$(RUN) tools/install.py $(VENV) '.[dev]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-dist: pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dist]'
	@touch $@

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

clean:
	rm -rf build dist .cache console/node_modules $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
