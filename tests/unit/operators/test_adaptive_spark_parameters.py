"""Parameters of the operator: they reach the loop, and an invalid one is an error with its name."""

import json
import re
import sys
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG, task_group

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import AirflowException, AirflowFailException, AsyncCallback, mask_secret
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.deployment import Group, compare, declaration, digest
from airflow_adaptive._core.protocol.conf import PACKAGES_PROPERTY
from airflow_adaptive._core.protocol.documents import (
    FORMATS,
    Action,
    Directive,
    JournalDocument,
    encode_document,
    journal_name,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.machine import create
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._engine.cluster.capacity_share import slot_demand
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.autoscaling.advisor import advisor, policy_from_text
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.operators.adaptive_spark import KUBERNETES, AdaptiveSparkOperator
from tests.lab.fakes.manual_clock import START
from tests.support.airflow.operator_fakes import TASK, FakeInstance, deferral, staged

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
        make(job_type="batch", rescale_policy=CALENDAR)._declared.check(streaming=False)


def test_job_graph_replaces_the_bounds(make):
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 8), stateful=False),
        JobVertex(name="count", parallelism=ParallelismRange(1, 4)),
    )
    spec = staged(make(job_graph=JobGraph(job="departures", vertices=vertices)))
    assert set(spec.graph.requirements) == {"read", "count"}


def test_connection_to_kafka_without_the_extra_names_the_remedy(make, monkeypatch):
    monkeypatch.delitem(sys.modules, "airflow_adaptive._airflow.process.kafka_brokers", raising=False)
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


def test_result_of_a_task_as_job_id_is_an_import_error_with_the_task(make):
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
        job_type="eternal",
        conn_id="nowhere",
        application="/nowhere/job.py",
        py_files=["/nowhere/more.py"],
        application_args="--input=x",
        conf={"spark.executor.memory": "4g", "spark.my.password": "hush"},
        driver_memory="much",
        executor_cores=0,
        stop_timeout="soon",
        poll_interval="never",
        restart_strategy="sometimes",
        jars="/nowhere/a.jar",
        packages=["a:b"],
        properties_file="/nowhere.conf",
        repositories=["https://me:hush@repo.example.com"],
    )
    with pytest.raises(AirflowFailException) as raised:
        wrong._spec("attempt", TASK)
    message = str(raised.value)
    assert message.startswith("job 'departures': job_type 'eternal' is not one of streaming, batch; ")
    for thing in (
        "connection 'nowhere' is not defined",
        "/nowhere/job.py",
        "/nowhere/more.py",
        "application_args must be a list",
        "'spark.executor.memory'] would have no effect",
        "'spark.my.password'], repositories['0']: Airflow would store these secrets in clear text",
        "driver_memory 'much' is not a memory size",
        "executor_cores 0",
        "stop_timeout 'soon'",
        "poll_interval 'never'",
        "sometimes",
        "'/nowhere/a.jar' cannot be read where Airflow runs",
        "packages: 'a:b' is not a package",
        "properties_file '/nowhere.conf' cannot be read",
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
        encode_document(JournalDocument(job=job, number=1, at="", owner="o", directive=directive, scheduler={}))
    )
    log = tmp_path / "jobs" / "departures" / "journal"
    log.mkdir(parents=True)
    (log / journal_name(1)).write_text(json.dumps(document | content))
    with pytest.raises(AirflowFailException, match="job 'departures': file://") as raised:
        make()._spec("attempt", TASK)
    assert message in str(raised.value)


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


def test_task_declares_its_parameters_without_secrets_for_previews(make, tmp_path):
    file = tmp_path / "dag.py"
    file.write_text("with DAG(...)")
    mask_secret("pin-of-a-connection")
    with DAG("d", schedule=None) as dag:
        operator = make(conf={"spark.a": 1, "spark.pin": "pin-of-a-connection"}, parallelism="(1, 8)", priority=3)
    dag.fileloc = str(file)
    spec = staged(operator)
    declared = operator._declaration(spec)
    assert decode(JobSpec, json.loads(json.dumps(encode(replace(spec, declaration=declared))))).declaration == declared
    assert declared.parameters["conf"] == {"spark.a": "1", "spark.pin": "***"}
    assert (declared.parameters["parallelism"], declared.parameters["priority"]) == ([1, 8], 3)
    assert f"/code/{declared.code}/" in spec.script
    assert declared.dag_file == digest("with DAG(...)")
    dag.fileloc = str(tmp_path / "dags.zip" / "dag.py")
    assert operator._declaration(spec).dag_file == ""


def test_change_of_every_declared_parameter_has_its_group():
    names = (*AdaptiveSparkOperator.template_fields, "job_graph", "options", "priority")
    changes = compare(
        declaration(dict.fromkeys(names, "a"), code="c"), declaration(dict.fromkeys(names, "b"), code="c")
    ).changes
    of_kubernetes = {it.name for it in changes if it.group is Group.KUBERNETES}
    assert len(changes) == len(names)
    assert of_kubernetes == {it.name for it in fields(KubernetesParameters)}


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


def test_operator_in_a_mapped_task_group_is_refused(make) -> None:
    with DAG("flights", schedule=None):

        @task_group
        def group(number: int) -> None:
            make()

        with pytest.raises(ValueError, match="in a mapped task group"):
            group.expand(number=[1, 2])


def test_spec_carries_bounds_options_and_shapes(make):
    spec = staged(make(scaling_interval_min="5 s", driver_memory="512m", executor_cores=2, executor_memory="2g"))
    assert spec.graph.requirements == {"job": ParallelismRange(1, 4)}
    assert spec.options.scaling_interval_min == timedelta(seconds=5)
    assert (spec.driver.memory_mb, spec.executor.cores, spec.executor.memory_mb) == (512, 2, 2048)


def test_priority_reaches_the_capacity_share(make):
    spec = staged(make(priority=7))
    assert (spec.priority, staged(make()).priority) == (7, 1)
    assert slot_demand(spec, create(spec.graph, spec.options), START).priority == 7
    assert spec.deployment == staged(make()).deployment, "a new priority needs no new driver"


@pytest.mark.parametrize("priority", ["high", 1.5, True, None])
def test_priority_that_is_no_whole_number_is_rejected(make, priority):
    with pytest.raises(DeclarationError, match=f"priority {priority!r} must be a whole number"):
        staged(make(priority=priority))


def test_callback_reaches_the_triggerer_as_plain_data(make, airflow):
    callback = AsyncCallback(SmtpNotifier, kwargs={"to": "oncall@example.com", "subject": "{{ message }}"})
    trigger = deferral(make(on_rescale_callback=callback).execute, {"ti": FakeInstance()})
    assert trigger.on_rescale == {
        "path": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        "kwargs": {"to": "oncall@example.com", "subject": "{{ message }}"},
    }
    assert deferral(make().execute, {"ti": FakeInstance()}).on_rescale is None


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (print, "on_rescale_callback must be an AsyncCallback"),
        (AsyncCallback(SmtpNotifier, kwargs={"to": object()}), "on_rescale_callback.kwargs must contain text, numbers"),
        (
            AsyncCallback(SmtpNotifier, kwargs={"password": "x"}),
            "on_rescale_callback.kwargs['password']: Airflow would store these secrets in clear text",
        ),
    ],
)
def test_callback_that_can_not_reach_the_triggerer_is_refused(make, callback, message):
    with pytest.raises(AirflowFailException, match="departures") as raised:
        make(on_rescale_callback=callback)._spec("attempt", TASK)
    assert message in str(raised.value)


@pytest.fixture(autouse=True)
def _kubernetes(monkeypatch):
    fields = {"conn_type": "spark", "host": "k8s://https://api:6443", "extra": {"namespace": "team-a"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_K8S", json.dumps(fields))
    credentials = {"conn_type": "kubernetes", "extra": {"in_cluster": True}}
    for name in ("STAGING", "KUBERNETES_DEFAULT"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(credentials))


def test_parameters_reach_the_triggerer(make, airflow):
    operator = make(
        conn_id="spark_k8s",
        kubernetes_conn_id="staging",
        namespace="team-b",
        image="spark:4.2",
        labels={"team": "b"},
        conf={"spark.kubernetes.driver.volumes.persistentVolumeClaim.jobs.options.claimName": "jobs"},
        tolerations=[{"operator": "Exists"}],
    )
    trigger = deferral(operator.execute, {"ti": FakeInstance()})
    assert trigger.connections == {"spark": "spark_k8s", "kubernetes": "staging", "namespace": "team-b", "kafka": ""}
    conf = trigger._job.spec.conf
    assert conf["spark.kubernetes.container.image"] == "spark:4.2"
    assert conf["spark.kubernetes.executor.label.team"] == "b"
    assert conf["spark.kubernetes.driver.volumes.persistentVolumeClaim.jobs.options.claimName"] == "jobs"
    assert json.loads(trigger._job.spec.driver_template or "") == {"spec": {"tolerations": [{"operator": "Exists"}]}}


def test_request_of_a_pod_includes_the_memory_overhead_of_spark(make):
    conf = {"spark.kubernetes.executor.request.cores": "500m", "spark.executor.memoryOverhead": "512m"}
    spec = staged(make(conn_id="spark_k8s", image="spark:4.2", conf=conf, executor_memory="1g", driver_memory="1g"))
    assert spec.executor.requested is not None
    assert (spec.executor.request.cpu_millicores, spec.executor.request.memory_bytes) == (500, (1024 + 512) << 20)
    assert spec.driver.request.memory_bytes > 1024 << 20


def test_another_template_is_another_deployment(make):
    one, other = (
        staged(make(conn_id="spark_k8s", image="spark:4.2", priority_class_name=name)) for name in ("low", "high")
    )
    assert one.deployment != other.deployment


def test_all_parameters_of_kubernetes_are_templated():
    assert {"kubernetes_conn_id", "namespace", *KUBERNETES} <= {*AdaptiveSparkOperator.template_fields}


def test_violations_are_part_of_the_one_error(make):
    with pytest.raises(AirflowFailException) as raised:
        make(
            conn_id="spark_k8s",
            driver_pod_template={"spec": {"restartPolicy": "Always"}},
            annotations={"api-token": "hush"},
            conf={"spark.executor.memoryOverhead": "much"},
        )._spec("attempt", TASK)
    message = str(raised.value)
    for thing in (
        "spec.restartPolicy 'Always'",
        "image is missing",
        "spark.executor.memoryOverhead",
        "annotations['api-token']: Airflow would store",
    ):
        assert thing in message
    assert "hush" not in message
