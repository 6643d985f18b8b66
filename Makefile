# Type `make` for the list of targets.
BIN := .venv/bin
INSTALLED := .venv/.installed
SPARK_VERSIONS := 4.0.5 4.1.4 4.2.1
AIRFLOW_VERSIONS := 3.1.8 3.2.2 3.3.2
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

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install ui ui-check demo playground test test-airflow test-spark test-kubernetes test-kubernetes-long kubernetes-programs test-kafka test-databases test-postgresql test-long test-faults test-spark-versions test-oldest-spark test-airflow-versions test-oldest-airflow test-weeks chaos check lint format unit explore fleet fleet-long mutants fleet-defects tables-age bench-scheduler bench-bodies bench-list bench-balance bench-triggerer bench-outages bench-rescale bench-real-time bench-kafka clean

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## set up .venv (and install Java 17 if the machine has no Java)

$(INSTALLED): pyproject.toml constraints.txt .ci/install.sh
	.ci/install.sh
	@touch $@

ui: install ## build the page of adaptive jobs if its sources have changed
	$(BIN)/python airflow_adaptive/plugin/ui/build.py

ui-check: install ## check types and style of the page and run its unit tests (half a minute)
	$(BIN)/python airflow_adaptive/plugin/ui/build.py check

demo: install ## run a real job on a real Airflow and a real Spark cluster (at most 6 minutes; SOURCE=kafka; CLUSTER=kubernetes; CONTEXT=kind-kind KUBECONFIG=file IMAGE=name CONF='spark.a=b spark.c=d')
	@$(BIN)/python -m $(DEMO)

playground: install ui ## run the demo, then keep Airflow, Spark and the job running until Ctrl-C
	$(BIN)/python -m airflow_adaptive.local demo --stay

test: check fleet ui ui-check ## run `check` and the tests on real Spark, on real Airflow and in a browser (about 15 minutes)
	.ci/ensure_chromium.sh
	$(MAKE) --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) test-airflow test-spark

# `test` runs both targets at the same time.
test-airflow: install ui
	$(BIN)/python -m pytest -m "not long" tests/integration/airflow tests/integration/browser

test-spark: install
	$(BIN)/python -m pytest -m "not long" tests/integration/spark

test-databases: install ui ## run the tests of the plugin, and jobs of several schedulers, triggerers and executors, on a real PostgreSQL (about 15 minutes)
	.ci/ensure_postgresql.sh
	.ci/ensure_redis.sh
	$(BIN)/python -m pytest --database postgresql tests/unit/plugin tests/unit/cli tests/integration/databases

# The part of `test-databases` that `.ci/run` runs.
test-postgresql: install ui
	.ci/ensure_postgresql.sh
	.ci/ensure_redis.sh
	$(BIN)/python -m pytest -m "not long" --database postgresql tests/unit/plugin/data tests/integration/databases

test-kubernetes: kubernetes-programs ## run the tests on a real Kubernetes cluster (needs Linux, root and Go; the first run builds the cluster for 8 minutes)
	$(BIN)/python -m pytest -m "not long" tests/integration/kubernetes

test-kubernetes-long: kubernetes-programs ## run the other tests on a real Kubernetes cluster (about 8 minutes)
	.ci/ensure_spark.sh $(firstword $(SPARK_VERSIONS)) >/dev/null
	$(BIN)/python -m pytest -m long tests/integration/kubernetes

kubernetes-programs: install
ifndef AIRFLOW_ADAPTIVE_TEST_KUBE_CONTEXT
	@$(BIN)/python -m tests.support.kubernetes.requirements
	.ci/ensure_containerd.sh
	.ci/build_kubernetes.sh
	.ci/build_versitygw.sh
	@$(BIN)/python -m tests.support.s3.jars
endif

test-kafka: install ## run the tests on real brokers of Kafka (about 5 minutes; the first run resolves the jars of the brokers)
	@$(BIN)/python -m tests.support.kafka.jars
	$(BIN)/python -m pytest -m "not long" tests/integration/kafka

test-long: install ui ## run the other tests on real Spark, real Airflow and real brokers of Kafka (about 45 minutes)
	.ci/ensure_chromium.sh
	@$(BIN)/python -m tests.support.kafka.jars
	$(BIN)/python -m pytest -m long tests/integration --ignore tests/integration/kubernetes

# pytest returns 5 if no test is left to run.
test-faults: install $(if $(filter kubernetes,$(CLUSTER)),kubernetes-programs) ## inject every fault at every moment on a real Spark cluster; results in docs/faults.md (hours; resumes; SHARD=1/3; RUNS=3; CLUSTER=kubernetes: on a real Kubernetes cluster)
	$(if $(filter-out standalone kubernetes,$(CLUSTER)),$(error CLUSTER=$(CLUSTER) is not supported: use standalone or kubernetes))
	for run in $$(seq $(or $(RUNS),1)); do \
		RUNS=$$run $(BIN)/python -m pytest $(if $(filter kubernetes,$(CLUSTER)), tests/lab/faults/kubernetes , tests/lab/faults --ignore tests/lab/faults/unit --ignore tests/lab/faults/kubernetes ) || [ $$? -eq 5 ] || exit 1; \
	done

test-spark-versions: install ## run the tests of drivers, and a job under random faults, on other versions of Spark (an hour; SPARK=4.0.5 runs one version)
	for version in $(or $(SPARK),$(SPARK_VERSIONS)); do \
		export PYTHONPATH=$$(.ci/ensure_spark.sh $$version) && \
		$(BIN)/python -m tests.support.tables.jars && \
		$(BIN)/python -m tests.support.kafka.jars && \
		$(BIN)/python -m pytest tests/integration/spark/driver && \
		$(BIN)/python -m pytest -m "not long" tests/integration/kafka && \
		$(BIN)/python -m tests.lab.faults.chaos --seed 11 --minutes 2 || exit 1; \
		for sink in $$($(BIN)/python -m tests.lab.faults.matrix.table_job); do \
			$(BIN)/python -m tests.lab.faults.chaos --seed 11 --minutes 1 --sink $$sink || exit 1; \
		done; \
	done

# The part of `test-spark-versions` that `.ci/run` runs.
test-oldest-spark: install
	PYTHONPATH=$$(.ci/ensure_spark.sh $(firstword $(SPARK_VERSIONS))) $(BIN)/python -m tests.lab.faults.chaos --seed 11 --minutes 0.7

# Documents of jobs, real processes of Airflow, and the page in a browser. Results are not published.
AIRFLOW_TESTS := tests/unit/stores tests/unit/triggers tests/unit/test_airflow_internals.py
AIRFLOW_FAULTS := $(addprefix tests/lab/faults/airflow/,test_several_faults.py test_triggerer.py test_runs.py test_requirements.py test_database.py)

test-airflow-versions: install ui ## run the tests of all that uses Airflow, also under faults and in a browser, on other versions of Airflow (hours; AIRFLOW=3.1.8 runs one version)
	.ci/check_requirements.sh
	.ci/ensure_chromium.sh
	for version in $(or $(AIRFLOW),$(AIRFLOW_VERSIONS)); do \
		environment=$$(.ci/ensure_airflow.sh $$version) && \
		$$environment/bin/python -m pytest $(PARALLEL) $(AIRFLOW_TESTS) && \
		$$environment/bin/python -m pytest tests/integration/airflow tests/integration/browser --ignore tests/integration/airflow/test_wheel.py --ignore tests/integration/airflow/versions && \
		$$environment/bin/python -m pytest $(AIRFLOW_FAULTS) || exit 1; \
	done
	$(BIN)/python -m pytest tests/integration/airflow/versions

# The part of `test-airflow-versions` that `.ci/run` runs.
test-oldest-airflow: install
	environment=$$(.ci/ensure_airflow.sh $(firstword $(AIRFLOW_VERSIONS))) && $$environment/bin/python -m pytest $(firstword $(AIRFLOW_FAULTS))

test-weeks: install ## simulate three weeks of a job with a thousand rescales and failures, and check for leaks (about 15 minutes)
	$(BIN)/python -m pytest -s tests/lab/faults/endurance

chaos: install ## inject random faults into one job, then count its rows (MINUTES=10; SEED=1 repeats the faults of a run; SINK=delta)
	$(BIN)/python -m tests.lab.faults.chaos $(if $(SEED),--seed $(SEED)) --minutes $(or $(MINUTES),10) --sink $(or $(SINK),strict)

check: lint unit ## run `lint` and `unit` (a few minutes)

lint: install ## check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.support.published_tables --check

# The tests of the scheduler are distributed by file, so that only one process explores each model.
unit: install ## run the unit tests, and require full branch coverage of the scheduler
	$(BIN)/python -m pytest $(PARALLEL) tests/unit tests/repository tests/lab/unit tests/lab/faults/unit --ignore tests/unit/scheduler
	$(BIN)/python -m pytest tests/unit/scheduler --numprocesses auto --dist loadfile --cov --cov-report=
	$(BIN)/coverage report --include='airflow_adaptive/scheduler/*' --fail-under=100

explore: install ## explore the state space of small jobs for five minutes, and print states and steps by depth
	$(BIN)/python -m tests.support.scheduler.exploration

fleet: install ## simulate fleets of jobs from seeds, and check the invariants (SEEDS=1-1000; JOBS=300)
	$(BIN)/python -m tests.lab.fleet $(or $(SEEDS),1-50) $(if $(JOBS),--jobs $(JOBS))

fleet-long: install ## simulate the next 1,000 seeds and a fleet of 300 jobs; results in docs/faults.md (SEEDS=1000; an hour; resumes)
	$(BIN)/python -m tests.support.fleet.long_run $(if $(SEEDS),--seeds $(SEEDS))

mutants: install ## mutate code, and list the mutants that no test detects (hours; resumes; MODULES="airflow_adaptive.scheduler.*")
	$(BIN)/mutmut run $(foreach module,$(MODULES),"$(module)")
	$(BIN)/mutmut results

fleet-defects: install ## bring fixed defects back, and check that the fleet simulator finds each of them by its named seed; results in docs/proof.md (minutes)
	$(BIN)/python -m tests.support.fleet.reverts

tables-age: install ## state below each measured table of the docs whether the table is older than the code
	$(BIN)/python -m tests.support.published_tables

bench-scheduler: install ## measure a scheduler step and the load balancing with 100 to 100,000 slots (one minute)
	$(BIN)/python -m tests.lab.benchmarks.scheduler

bench-bodies: install ## measure the CPU time of the largest request body of the REST API (a few seconds)
	$(BIN)/python -m tests.lab.benchmarks.request_bodies

bench-list: install ## measure the response time of the list of 1,000 jobs on a real PostgreSQL (two minutes)
	.ci/ensure_postgresql.sh
	$(BIN)/python -m tests.lab.benchmarks.job_list

bench-balance: install ## measure the balance of tasks on a real Spark cluster, without and with load balancing (at most 6 minutes)
	$(BIN)/python -m tests.lab.benchmarks.balance

bench-real-time: install ## measure the latency of Real-Time Mode around rescales, on a real broker and a real Spark cluster (about 6 minutes)
	@$(BIN)/python -m tests.support.kafka.jars
	$(BIN)/python -m tests.lab.benchmarks.real_time

bench-kafka: install ## run queries of Nexmark from a real broker, on Spark with fixed and adaptive parallelism, and on Flink (about 25 minutes)
	@$(BIN)/python -m tests.support.kafka.jars
	$(BIN)/python -m tests.lab.benchmarks.nexmark

bench-triggerer: install ## measure a triggerer with 10, 100 and 1,000 jobs (about 15 minutes)
	$(BIN)/python -m tests.lab.benchmarks.triggerer

bench-outages: install ## measure a triggerer with 1,000 jobs during outages of the master, the storage and Airflow's stores (about 15 minutes)
	$(BIN)/python -m tests.lab.benchmarks.triggerer --section outages --jobs 1000 --runs 1 --seconds 60 --master-delay 2 --storage-delay 0.03 --store-hangs --restart

bench-rescale: install $(if $(filter kubernetes,$(CLUSTER)),kubernetes-programs) ## measure each rescale tier on a real Spark cluster, and Flink (45 minutes; CLUSTER=kubernetes: on Kubernetes, beside a standalone cluster)
	$(BIN)/python -m tests.lab.benchmarks.rescale $(if $(CLUSTER),--cluster $(CLUSTER))

format: install ## format the code as `lint` requires
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python airflow_adaptive/plugin/ui/build.py format

clean: ## delete .venv and all files of the tools and the demo
	rm -rf .venv .airflow .bench .demo .faults .fleet mutants .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	cd airflow_adaptive/plugin/ui && rm -rf dist node_modules src/generated
