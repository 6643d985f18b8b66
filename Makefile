# Type `make` for the list of targets.
BIN := .venv/bin
INSTALLED := .venv/.installed
PARALLEL := --numprocesses auto --dist worksteal
UNIT := -m "not cluster and not airflow and not browser and not faults"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install ui ui-check demo test test-airflow test-cluster test-long test-faults test-weeks chaos check lint format unit explore mutants bench-scheduler bench-balance bench-triggerer bench-rescale clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## set up .venv (and Java 17 or later if there is none)

$(INSTALLED): pyproject.toml constraints.txt .ci/install.sh
	.ci/install.sh
	@touch $@

ui: install ## build the page of adaptive jobs, if its sources have changed
	$(BIN)/python airflow_adaptive/plugin/ui/build.py

ui-check: install ## types, style and unit tests of the page (half a minute)
	$(BIN)/python airflow_adaptive/plugin/ui/build.py check

demo: install ## watch a real job on a real Airflow and a real Spark cluster (at most 6 minutes)
	$(BIN)/python -m airflow_adaptive.local.demo

test: check ui ui-check ## what `check` does, then the tests on real Spark, real Airflow and in a browser (some 15 minutes)
	.ci/ensure_chromium.sh
	$(MAKE) --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) test-airflow test-cluster

# Side by side in `test`. Folders, since to look for tests in all of them takes longer than some of these.
test-airflow: install ui
	$(BIN)/python -m pytest -m "not long" tests/integration/airflow

test-cluster: install ui
	$(BIN)/python -m pytest -m "(cluster or browser) and not long" \
		tests/integration/spark tests/integration/browser tests/faults/matrix tests/unit/testing/contracts

test-long: install ## the other tests on real Spark and real Airflow (some 40 minutes)
	$(BIN)/python -m pytest -m long

test-faults: install ## break everything on a real Spark cluster; results in docs/faults.md (hours; SHARD=1/3, goes on where it was)
	$(BIN)/python -m pytest -m faults tests/faults

test-weeks: install ## three weeks of a job's life, with a thousand rescales and failures: nothing may grow (some 15 minutes)
	$(BIN)/python -m pytest -m faults -s tests/faults/test_weeks.py

chaos: install ## break one job at random, then count its rows (MINUTES=10; SEED=1 for the same faults again)
	$(BIN)/python -m tests.faults.chaos $(if $(SEED),--seed $(SEED)) --minutes $(or $(MINUTES),10)

check: lint unit ## lint, types, layers and unit tests (a few minutes)

lint: install ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# By file: what one process has explored of a model is not explored again by another.
unit: install ## unit tests, with every branch of the scheduler covered
	$(BIN)/python -m pytest $(UNIT) $(PARALLEL) tests/unit tests/benchmarks tests/faults --ignore tests/unit/scheduler
	$(BIN)/python -m pytest tests/unit/scheduler --numprocesses auto --dist loadfile --cov --cov-report=
	$(BIN)/coverage report --include='airflow_adaptive/scheduler/*' --fail-under=100

explore: install ## all that can happen to small jobs, as deep as five minutes allow: states and steps by depth
	$(BIN)/python -m tests.support.exploration

mutants: install ## break the policies in small ways, see whether the tests notice (under 15 minutes)
	$(BIN)/python -m tests.support.mutation.mutants policies

bench-scheduler: install ## what a step and the balancing cost for 100 to 100,000 slots (a minute)
	$(BIN)/python -m tests.benchmarks.scheduler

bench-balance: install ## where tasks run on a real Spark cluster, without and with load balancing (at most 6 minutes)
	$(BIN)/python -m tests.benchmarks.balance

bench-triggerer: install ## what a triggerer needs for 10, 100 and 1,000 jobs (some 15 minutes)
	$(BIN)/python -m tests.benchmarks.triggerer

bench-rescale: install ## what each tier of a rescale costs on a real Spark cluster, beside Flink (three quarters of an hour)
	$(BIN)/python -m tests.benchmarks.rescale

format: install ## rewrite the code the way `lint` wants it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python airflow_adaptive/plugin/ui/build.py format

clean: ## remove .venv and what the tools and the demo left
	rm -rf .venv .bench .demo .faults .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	cd airflow_adaptive/plugin/ui && rm -rf dist node_modules src/generated
