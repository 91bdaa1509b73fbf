# Two targets are enough to begin with: `make serve` and `make test`.
VENV   := .venv
LISTEN ?= 127.0.0.1:5432
DATA   ?= ./shoal-data
NODES  ?= 3
PORT   ?= 5440
SECONDS_OF_TORTURE ?= 300
BUDGET ?= 20m
SUITES ?=
APPLICATIONS ?=
WORKERS ?= 4

.PHONY: help serve cluster install test test-long lint docs differential torture torture-cluster conformance applications bench bench-cluster bench-spark packages console lock clean

help:            ## these lines
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: [^#]*## */\t/' | expand -t 18

$(VENV)/bin/python:
	@python=$${PYTHON:-$$(tools/python.sh)} && echo "making $(VENV) with $$python" && $$python -m venv $(VENV)

# What serving needs, and no more.
$(VENV)/.serving: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install -q --disable-pip-version-check --use-pep517 -e .
	touch $@

# What the documentation's site needs.
$(VENV)/.documentation: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install -q --disable-pip-version-check --use-pep517 -e '.[docs]'
	touch $@

# What developing and testing needs.
$(VENV)/.development: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install -q --disable-pip-version-check --use-pep517 -e '.[dev]'
	touch $@ $(VENV)/.serving $(VENV)/.documentation

serve: $(VENV)/.serving      ## a server on 127.0.0.1:5432 with its data in ./shoal-data
	$(VENV)/bin/shoal serve --data $(DATA) --listen $(LISTEN)

# Its directory has a default of its own: DATA counts where it was given.
cluster: $(VENV)/.serving      ## ZooKeeper, three nodes and a router on this machine, with their data in ./shoal-cluster
	$(VENV)/bin/python -m tools.cluster --nodes $(NODES) --port $(PORT) \
		--data $(if $(filter file,$(origin DATA)),./shoal-cluster,$(DATA))

install: $(VENV)/.development      ## a development environment: .venv with .venv/bin/shoal

packages:      ## Debian packages that the tests use
	@tools/packages.sh

lint: $(VENV)/.development      ## ruff, mypy and the layer contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

# Tests wait for processes for more than half of their time: more at a time than there are processors.
test: packages lint      ## everything that shows that it works
	tools/in_memory.sh $(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile

test-long: packages $(VENV)/.development      ## what `make test` leaves out: Spark jobs, killed drivers, Spark on a cluster
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile -m long --timeout 1800

differential: $(VENV)/.development      ## generated statements on both paths and on PostgreSQL, for ten minutes
	$(VENV)/bin/python -m tests.differential --seconds 480
	$(VENV)/bin/python -m tests.differential --families --seconds 120

torture: packages $(VENV)/.development      ## tries every promise of docs/guarantees.md for BUDGET, and writes its figures
	$(VENV)/bin/python -m tests.torture --budget $(BUDGET)

torture-cluster: packages $(VENV)/.development      ## kills and freezes a cluster under load, and compares everything
	$(VENV)/bin/python -m tests.torture.cluster --seconds $(SECONDS_OF_TORTURE)

conformance: packages $(VENV)/.development      ## suites that others wrote, on PostgreSQL and on Shoal: docs/conformance.md
	$(VENV)/bin/python -m tests.conformance $(SUITES)

# What an application needs is fetched by its language's own client; one that cannot be had counts as not run.
applications: $(VENV)/.development      ## applications that others wrote, installed and driven against Shoal (APPLICATIONS: these)
	$(VENV)/bin/python -m tests.applications $(APPLICATIONS)

bench: packages $(VENV)/.development      ## Shoal beside PostgreSQL: pgbench, COPY, scans, an analytic query
	$(VENV)/bin/python -m bench

bench-cluster: packages $(VENV)/.development      ## three nodes and three ZooKeeper servers beside a single node
	$(VENV)/bin/python -m bench.cluster

bench-spark: packages $(VENV)/.development      ## Spark by stock JDBC and by the data source shoal, beside PostgreSQL
	$(VENV)/bin/python -m bench.spark --big

docs: $(VENV)/.documentation      ## the documentation as a site: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

console:      ## bundles the console's page again, after a change in shoal/console/web (needs Node.js 20 and npm)
	cd shoal/console/web && npm ci --no-audit --no-fund && npm run check && npm run build

lock:      ## requirements.lock: what an image is built of, with hashes (needs uv)
	uv pip compile pyproject.toml --group build --universal --generate-hashes --no-header --no-emit-index-url \
		$(if $(UPGRADE),--upgrade) --quiet --output-file requirements.lock

clean:      ## removes the environment and caches, never data
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build *.egg-info
