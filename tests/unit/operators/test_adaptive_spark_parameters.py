"""Parameters of the operator: what it accepts, and how it reports wrong parameters."""

import json
import re
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG, Asset, task_group

from airflow_adaptive._airflow.internals import AirflowException, AirflowFailException
from airflow_adaptive._core.protocol.codec import encode_journal, journal_name
from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY
from airflow_adaptive._core.protocol.documents import FORMATS, Action, Directive, JournalDocument
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.autoscaling.advisor import advisor, policy_from_text
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from tests.support.airflow.operator_fakes import TASK, staged

pytestmark = pytest.mark.usefixtures("spark_default")


def test_options_come_from_default_args(script, tmp_path):
    with DAG("d", schedule=None, default_args={"stop_timeout": "7 s"}):
        operator = AdaptiveSparkOperator(
            task_id="t", job="j", application=script, job_directory=f"file://{tmp_path}", parallelism=2
        )
    assert staged(operator).options.stop_timeout == timedelta(seconds=7)


CALENDAR = scheduled_policy(zone="Europe/Berlin", windows=[window("day", (2, 4), start="08:00", end="20:00")])
TOO_MUCH = scheduled_policy(zone="UTC", windows=[window("day", (2, 9), start="08:00", end="20:00")])


@pytest.mark.parametrize("policy", [CALENDAR, LoadPolicy(dry_run=True), CombinedPolicy(calendar=CALENDAR)])
def test_rescale_policy_reaches_the_triggerer_as_it_was_declared(make, policy):
    spec = decode(JobSpec, json.loads(json.dumps(encode(staged(make(rescale_policy=policy))))))
    assert policy_from_text(spec.rescale_policy) == policy
    made_advisor = advisor(spec.rescale_policy)
    assert made_advisor is not None
    assert made_advisor.kind == type(policy).__name__


def test_another_policy_is_no_reason_for_another_driver(make):
    assert staged(make(rescale_policy=CALENDAR)).deployment == staged(make()).deployment


@pytest.mark.parametrize(
    ("changes", "violation"),
    [
        (
            {"rescale_policy": "daily"},
            "rescale_policy must be a ScheduledPolicy or a LoadPolicy or a CombinedPolicy, not a str",
        ),
        (
            {"rescale_policy": TOO_MUCH},
            "window 'day': upper bound 9 of vertex 'job' is above its max_parallelism 4: decrease the bound",
        ),
        ({"rescale_policy": CombinedPolicy(calendar=TOO_MUCH)}, "is above its max_parallelism 4"),
        ({"rescale_policy": CALENDAR, "reactive": True}, "rescale_policy has no effect on a job in reactive mode"),
        ({"rescale_policy": CALENDAR, "parallelism": "1-4"}, "parallelism '1-4' must be a whole number"),
    ],
)
def test_policy_that_the_job_can_not_have_is_refused_before_anything_is_staged(make, tmp_path, changes, violation):
    with pytest.raises(ValueError, match=re.escape(violation)):
        staged(make(**changes))
    assert not (tmp_path / "jobs").exists()


def test_batch_with_a_rescale_policy_is_refused(make):
    with pytest.raises(ValueError, match="rescale_policy has no effect on a batch: leave it out"):
        make(job_type="batch", rescale_policy=CALENDAR)._declared.batch()


def test_job_graph_replaces_the_bounds(make):
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 8), stateful=False),
        JobVertex(name="count", parallelism=ParallelismRange(1, 4)),
    )
    spec = staged(make(job_graph=JobGraph(job="departures", vertices=vertices)))
    assert set(spec.graph.requirements) == {"read", "count"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"parallelism": (4, 1)}, "lower bound 4 of vertex 'job' is higher"),
        ({"parallelism": (0, 1)}, "greater than zero"),
        ({"parallelism": (1, 8), "max_parallelism": 4}, "exceeds its maximum parallelism 4"),
        ({"stop_timeout": "soon"}, "stop_timeout"),
        ({"executor_memory": "much"}, "'much' is not a memory size"),
        ({"application": "/nowhere/job.py"}, "/nowhere/job.py"),
        ({"job": "no/path"}, "job id 'no/path'"),
        ({"conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}, "spark.hadoop.fs.s3a.secret.key"),
        ({"env_vars": {"AWS_SECRET_ACCESS_KEY": "x"}}, "env_vars['AWS_SECRET_ACCESS_KEY']"),
        ({"parallelism": "1-4"}, "parallelism '1-4' must be a whole number, or a pair"),
        ({"parallelism": (1, "four")}, "must be a whole number, or a pair"),
        ({"parallelism": 1.5}, "must be a whole number, or a pair"),
        ({"executor_cores": 0}, "executor_cores 0 must be 1 or more"),
        ({"driver_memory": "400m"}, "driver_memory of 400 MiB is below the 450 MiB"),
        ({"job_directory": "file://tmp/jobs"}, "job_directory 'file://tmp/jobs' is not absolute"),
        ({"job_directory": "jobs"}, "job_directory 'jobs' is not absolute"),
        ({"application_args": "--input=x"}, "application_args must be a list, for example ['--input=x']"),
        ({"restart_strategy": "sometimes"}, "sometimes"),
        ({"application": "/opt/departures.jar"}, "is a JVM application"),
        ({"application": "local:///opt/departures.py"}, "is a file of the cluster"),
        ({"jars": "/nowhere/a.jar"}, "'/nowhere/a.jar' cannot be read where Airflow runs"),
        ({"packages": ["a:b"]}, "packages: 'a:b' is not a package"),
        ({"properties_file": "/nowhere.conf"}, "properties_file '/nowhere.conf' cannot be read"),
        ({"conf": "spark.a=1"}, "conf must be a mapping"),
        ({"application": "hdfs://n/departures.py"}, "'hdfs://n/departures.py' cannot be used"),
        ({"job_directory": "hdfs://n/jobs"}, "'hdfs://n/jobs' cannot be used"),
        ({"repositories": ["https://me:hush@repo.example.com"]}, "repositories['0']: Airflow would store"),
        ({"conf": {"spark.app.name": "x"}}, "use the parameter 'name' of the operator"),
    ],
)
def test_bad_input_names_the_thing(make, changes, named):
    with pytest.raises(AirflowFailException, match="departures|no/path") as raised:
        make(**changes)._spec("attempt", TASK)
    assert named in str(raised.value)


def test_connection_to_kafka_without_the_extra_names_the_remedy(make, monkeypatch):
    monkeypatch.delitem(sys.modules, "airflow_adaptive.hooks.kafka", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(AirflowFailException, match=r"departures.*: install 'airflow-adaptive\[kafka\]'"):
        make(kafka_conn_id="kafka_test")._spec("attempt", TASK)


def test_values_that_spark_submit_operator_accepts_are_accepted(make, script, tmp_path):
    (tmp_path / "a.py").touch()
    spec = staged(make(application=Path(script), application_args=None, py_files=f"{tmp_path}/a.py,{tmp_path}/a*.py"))
    assert spec.args == ()
    assert [Path(uri).name for uri in spec.py_files].count("a.py") == 1


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("departures_{{ ds }}", "because Airflow must know the Asset of the job: use a fixed id, or map the task over"),
        (5, "job id 5 must be text"),
    ],
)
def test_job_id_that_the_dag_file_does_not_determine_is_an_import_error(make, job, message):
    with pytest.raises(ValueError, match=message):
        make(job=job)


def test_result_of_a_task_as_job_id_is_an_import_error_that_names_the_mapped_task(make):
    with (
        DAG("flights", schedule=None),
        pytest.raises(ValueError, match=r"map the task over the ids, expand\(job=...\)"),
    ):
        make(task_id="second", job=make(task_id="first").output)


@pytest.mark.parametrize("job", ["🚀", "Abflüge"])
def test_job_id_that_airflow_cannot_store_is_an_import_error_of_the_dag_file(make, job):
    with pytest.raises(ValueError, match=f"job id '{job}' may contain only ASCII letters"):
        make(job=job)


def test_one_error_reports_all_violations(make):
    wrong = make(
        job="no/path",
        job_type="eternal",
        parallelism=(4, 1),
        conn_id="nowhere",
        application="/nowhere/job.py",
        py_files=["/nowhere/more.py"],
        application_args="--input=x",
        conf={"spark.executor.memory": "4g", "spark.my.password": "hush"},
        driver_memory="much",
        executor_cores=0,
        stop_timeout="soon",
        poll_interval="never",
    )
    with pytest.raises(AirflowFailException) as raised:
        wrong._spec("attempt", TASK)
    message = str(raised.value)
    assert message.startswith("job 'no/path': job_type 'eternal' is not one of streaming, batch; ")
    for thing in (
        "job id 'no/path'",
        "lower bound 4",
        "connection 'nowhere' is not defined",
        "/nowhere/job.py",
        "/nowhere/more.py",
        "application_args must be a list",
        "'spark.executor.memory'] would have no effect",
        "'spark.my.password']: Airflow would store these secrets in clear text",
        "driver_memory 'much' is not a memory size",
        "executor_cores 0",
        "stop_timeout 'soon'",
        "poll_interval 'never'",
    ):
        assert message.count(thing) == 1, thing
    assert "hush" not in message


@pytest.mark.parametrize(
    ("job", "content", "message"),
    [
        ("other", {}, "was written by job 'other': use a separate directory for each job"),
        ("departures", {"format": FORMATS[-1] + 1}, "newer than 1: upgrade airflow-adaptive on this side"),
    ],
)
def test_directory_of_another_job_or_version_is_refused_at_once(make, tmp_path, job, content, message):
    directive = Directive(epoch=1, nonce="n", version=1, action=Action.RUN, plan=None)
    document = json.loads(
        encode_journal(JournalDocument(job=job, number=1, at="", owner="o", directive=directive, scheduler={}))
    )
    log = tmp_path / "jobs" / "departures" / "journal"
    log.mkdir(parents=True)
    (log / journal_name(1)).write_text(json.dumps(document | content))
    with pytest.raises(AirflowFailException, match="job 'departures': file://") as raised:
        make()._spec("attempt", TASK)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("memory", "expected"), [("2G", 2048), ("1048576k", 1024), ("1073741824b", 1024), ("1tb", 1 << 20)]
)
def test_memory_may_have_each_unit_of_spark(make, memory, expected):
    assert staged(make(executor_memory=memory)).executor.memory_mb == expected


def test_needed_files_are_staged_and_uris_are_not(make, tmp_path):
    jar, table = tmp_path / "routes.jar", tmp_path / "routes.csv"
    jar.write_bytes(b"jar")
    table.write_bytes(b"csv")
    spec = staged(
        make(
            jars=f"{jar},s3a://b/c.jar",
            files=[f"file://{table}"],
            packages="a:b:1",
            py_files="hdfs://n/m.zip",
            name="N",
        )
    )
    jars, files = spec.conf["spark.jars"].split(","), spec.conf["spark.files"]
    assert Path(jars[0].removeprefix("file://")).read_bytes() == b"jar"
    assert Path(files.removeprefix("file://")).read_bytes() == b"csv"
    assert (jars[1], spec.py_files[-1], spec.conf[PACKAGES_PROPERTY]) == ("s3a://b/c.jar", "hdfs://n/m.zip", "a:b:1")
    assert spec.application_name == "N"
    assert not {jars[0], files} & set(spec.py_files)


def test_changed_file_needs_a_new_driver(make, tmp_path):
    table = tmp_path / "routes.csv"
    table.write_bytes(b"1")
    first = staged(make(files=[str(table)])).deployment
    table.write_bytes(b"2")
    assert staged(make(files=[str(table)])).deployment != first


def test_conf_takes_precedence_over_the_properties_file(make, tmp_path):
    file = tmp_path / "spark.conf"
    file.write_text("spark.a 1\nspark.b 1\n")
    conf = staged(make(properties_file=str(file), conf={"spark.b": 2})).conf
    assert (conf["spark.a"], conf["spark.b"]) == ("1", "2")


def test_property_in_the_properties_file_that_a_parameter_determines_is_refused(make, tmp_path):
    """Users pass the spark-defaults.conf of their spark-submit."""
    file = tmp_path / "spark-defaults.conf"
    file.write_text("spark.master yarn\n")
    with pytest.raises(
        AirflowFailException, match=r"properties_file\['spark.master'\] .* parameter 'conn_id'"
    ) as raised:
        make(properties_file=str(file))._spec("attempt", TASK)
    assert "conf['spark.master']" not in str(raised.value)


def test_secret_in_the_properties_file_is_refused(make, tmp_path):
    file = tmp_path / "spark.conf"
    file.write_text("spark.my.password hush\n")
    with pytest.raises(
        AirflowFailException, match=r"properties_file\['spark.my.password'\]: Airflow would store"
    ) as raised:
        make(properties_file=str(file))._spec("attempt", TASK)
    assert "hush" not in str(raised.value)


def test_misspelled_parameter_is_reported_when_the_dag_is_parsed(make):
    with pytest.raises(TypeError, match=r"'stop_timout': did you mean 'stop_timeout'\?"):
        make(stop_timout="5 s")


def test_secret_is_named_and_not_displayed(make):
    with pytest.raises(AirflowFailException) as raised:
        make(env_vars={"API_TOKEN": "hush"})._spec("attempt", TASK)
    assert "hush" not in str(raised.value)


def test_name_that_only_looks_like_a_secret_can_be_declared_public(make):
    public = {"env_vars": {"MY_TOKEN": "public"}, "application_args": ["--key-secret", "1"]}
    with pytest.raises(AirflowFailException, match=re.escape("env_vars['MY_TOKEN'], application_args['--key-secret']")):
        make(**public)._spec("attempt", TASK)
    spec = staged(make(**public, not_secret=["MY_TOKEN", "--key-secret"]))
    assert (spec.env, spec.args) == ({"MY_TOKEN": "public"}, ("--key-secret", "1"))


def test_job_directory_that_does_not_answer_may_be_retried(make, airflow, tmp_path):
    (tmp_path / "jobs").write_text("no directory")
    with pytest.raises(AirflowException, match="departures") as raised:
        make()._spec("attempt", TASK)
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize("bounds", [2, (2, 2), [2, 2]])
def test_bounds_may_be_a_number_a_pair_or_a_list(make, bounds):
    assert staged(make(parallelism=bounds)).graph.requirements == {"job": ParallelismRange(2, 2)}


@pytest.mark.parametrize("inlets", [None, Asset("raw"), [Asset("raw")]])
def test_job_joins_the_assets_that_are_given(make, inlets):
    assert make(inlets=inlets).inlets[-1] == Asset("adaptive://job/departures")


def test_unknown_argument_is_refused_when_the_dag_is_parsed(make):
    with pytest.raises(TypeError, match="cooldown_forever"):
        make(cooldown_forever=True)


def test_operator_in_a_mapped_task_group_is_refused(make) -> None:
    with DAG("flights", schedule=None):

        @task_group
        def group(number: int) -> None:
            make()

        with pytest.raises(ValueError, match="in a mapped task group"):
            group.expand(number=[1, 2])
