# Type `make` for the list of targets.
BIN := .venv/bin
INSTALLED := .venv/.installed
SPARK_VERSIONS := 4.0.5 4.1.4 4.2.1
AIRFLOW_VERSIONS := 3.1.8 3.2.2 3.3.2
SPARK := $(SPARK_VERSIONS)
AIRFLOW := $(AIRFLOW_VERSIONS)
SERVERS := local postgresql kubernetes kafka
PARALLEL := --numprocesses auto --dist worksteal

DEMO := airflow_adaptive.local demo
ifeq ($(CLUSTER),kubernetes)
# Without a context, the demo starts a cluster, which needs Linux, root and Go. The demo reads KUBECONFIG from its environment.
DEMO := $(if $(CONTEXT),airflow_adaptive.local demo --context $(CONTEXT) $(if $(IMAGE),--image $(IMAGE)) $(foreach property,$(CONF),--conf $(property)),tests.support.kubernetes_demo)
export KUBECONFIG
endif

ifeq ($(SOURCE),kafka)
DEMO := tests.support.kafka_demo
endif

SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
UNIT_TESTS := tests/unit tests/repository tests/lab/unit tests/lab/faults/unit

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install ui demo playground check lint unit test test-page test-fleets test-airflow test-spark test-jobs test-servers test-spark-versions test-airflow-versions local postgresql kubernetes kafka lab docs format clean

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## set up .venv (and install Java 17 if the machine has no Java)

$(INSTALLED): pyproject.toml constraints.txt .ci/install.sh
	.ci/install.sh
	@touch $@

ui: install ## build the page of adaptive jobs if its sources have changed
	$(BIN)/python airflow_adaptive/_web/ui/build.py

demo: install ## run a real job on a real Airflow and a real Spark cluster (at most 6 minutes; SOURCE=kafka; CLUSTER=kubernetes; CONTEXT=kind-kind KUBECONFIG=file IMAGE=name CONF='spark.a=b spark.c=d')
	@$(BIN)/python -m $(DEMO)

playground: install ui ## run the demo, then keep Airflow, Spark and the job running until Ctrl-C
	$(BIN)/python -m airflow_adaptive.local demo --stay

test: install ui ## run what `check` runs, 8 fleets, and the main tests on real Spark, on real Airflow and in a browser (15 minutes on two cores)
	$(MAKE) --jobs=2 $(SYNC) lint unit test-page test-fleets
	.ci/ensure_chromium.sh
	$(MAKE) --jobs=2 $(SYNC) test-airflow test-spark

# `test` runs two of these targets at the same time.
test-page: ui
	$(BIN)/python airflow_adaptive/_web/ui/build.py check

test-fleets: install
	$(BIN)/python -m tests.lab fleet 1-8

test-airflow: install ui
	$(BIN)/python -m pytest -m "not long" tests/integration/airflow tests/integration/browser

test-spark: install
	$(BIN)/python -m pytest -m "not long" tests/integration/spark

test-jobs: postgresql kubernetes kafka ## run one job with faults on PostgreSQL, Kubernetes, Kafka, the oldest Spark and the oldest Airflow (about 15 minutes)
	$(BIN)/python -m pytest --database postgresql tests/integration/databases/test_processes.py
	$(BIN)/python -m pytest tests/integration/kubernetes/test_job.py
	$(BIN)/python -m pytest tests/integration/kafka/test_delivery.py
	PYTHONPATH=$$(.ci/ensure_spark.sh $(firstword $(SPARK_VERSIONS))) $(BIN)/python -m tests.lab chaos --seed 11 --minutes 0.7
	environment=$$(.ci/ensure_airflow.sh $(firstword $(AIRFLOW_VERSIONS))) && $$environment/bin/python -m pytest $(firstword $(AIRFLOW_FAULTS))

test-servers: install ui $(SERVERS) ## run all tests on real servers (2 hours; SERVERS=postgresql, kubernetes, kafka or local: the long tests on Spark and Airflow)
	$(if $(filter local,$(SERVERS)),$(BIN)/python -m pytest -m long tests/integration/airflow tests/integration/browser tests/integration/spark)
	$(if $(filter postgresql,$(SERVERS)),$(BIN)/python -m pytest --database postgresql tests/unit/_web tests/integration/databases)
	$(if $(filter kubernetes,$(SERVERS)),$(BIN)/python -m pytest tests/integration/kubernetes)
	$(if $(filter kafka,$(SERVERS)),$(BIN)/python -m pytest tests/integration/kafka)

# Each of these prepares a server. The tests start the servers.
local: install
	.ci/ensure_chromium.sh

postgresql: install
	.ci/ensure_postgresql.sh
	.ci/ensure_redis.sh

kubernetes: install
	@$(BIN)/python -m tests.support.kubernetes.requirements
	.ci/ensure_containerd.sh
	.ci/build_kubernetes.sh
	.ci/build_versitygw.sh
	.ci/ensure_spark.sh $(firstword $(SPARK_VERSIONS)) >/dev/null
	@$(BIN)/python -m tests.support.s3.jars

kafka: install
	@$(BIN)/python -m tests.support.kafka.jars

# Documents of jobs, real processes of Airflow, and the page in a browser. Results are not published.
AIRFLOW_TESTS := $(addprefix tests/unit/,_airflow/process _airflow/store _airflow/test_internals.py operators sensors triggers)
AIRFLOW_FAULTS := $(addprefix tests/lab/faults/airflow/,test_several_faults.py test_triggerer.py test_runs.py test_requirements.py test_database.py)

test-spark-versions: install ## run the tests of drivers, also under faults, on other versions of Spark (hours; SPARK=4.0.5 runs one version)
	for version in $(SPARK); do \
		export PYTHONPATH=$$(.ci/ensure_spark.sh $$version) && \
		$(BIN)/python -m tests.support.tables.jars && \
		$(BIN)/python -m tests.support.kafka.jars && \
		$(BIN)/python -m pytest tests/integration/spark/driver && \
		$(BIN)/python -m pytest -m "not long" tests/integration/kafka && \
		$(BIN)/python -m tests.lab chaos --seed 11 --minutes 2 || exit 1; \
		for sink in $$($(BIN)/python -m tests.lab.faults.matrix.table_job); do \
			$(BIN)/python -m tests.lab chaos --seed 11 --minutes 1 --sink $$sink || exit 1; \
		done; \
	done

test-airflow-versions: install ui ## run the tests of all that uses Airflow, also under faults, on other versions of Airflow (hours; AIRFLOW=3.1.8 runs one version)
	.ci/ensure_chromium.sh
	for version in $(AIRFLOW); do \
		environment=$$(.ci/ensure_airflow.sh $$version) && \
		$$environment/bin/python -m pytest $(PARALLEL) $(AIRFLOW_TESTS) && \
		$$environment/bin/python -m pytest tests/integration/airflow tests/integration/browser --ignore tests/integration/airflow/test_wheel.py --ignore tests/integration/airflow/versions && \
		$$environment/bin/python -m pytest $(AIRFLOW_FAULTS) || exit 1; \
	done
	.ci/check_requirements.sh
	$(BIN)/python -m pytest tests/integration/airflow/versions

check: install ## run `lint` and `unit` at the same time (about 5 minutes on two cores)
	$(MAKE) --jobs=2 $(SYNC) lint unit

lint: install ## check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: install ## run the unit tests that are not long, and require full branch coverage of the scheduler
	$(BIN)/python -m pytest -m "not long" $(PARALLEL) tests/unit/_core/scheduler --cov --cov-report=
	$(BIN)/coverage report --include='airflow_adaptive/_core/scheduler/*' --fail-under=100
	$(BIN)/python -m pytest -m "not long" $(PARALLEL) $(UNIT_TESTS) --ignore tests/unit/_core/scheduler

lab: install ## run a task of the laboratory (benchmarks, faults, fleets, mutants): TASK='chaos --minutes 1'; without TASK, list the tasks
	@$(BIN)/python -m tests.lab $(TASK)

docs: install ## build the documentation site into build/docs, with each warning as an error (LINKS=links requests the links to other sites, too)
	.ci/build_docs.sh $(LINKS)

format: install ## format the code as `lint` requires
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python airflow_adaptive/_web/ui/build.py format

clean: ## delete .venv and all files of the tools and the demo
	rm -rf .venv .airflow .bench .demo .faults mutants .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	cd airflow_adaptive/_web/ui && rm -rf dist node_modules src/generated
