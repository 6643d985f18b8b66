from datetime import timedelta

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import Asset

from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import AirflowFailException, AsyncCallback
from airflow_adaptive._core.scheduler.machine import create
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._engine.cluster.capacity_share import slot_demand
from airflow_adaptive._engine.spec import JobSpec
from tests.lab.fakes.manual_clock import START
from tests.support.airflow.operator_fakes import TASK, FakeInstance, deferral, staged

pytestmark = pytest.mark.usefixtures("spark_default")


def test_job_is_an_asset_that_the_task_reads_and_writes(make):
    operator = make()
    assert Asset("adaptive://job/departures") in operator.inlets
    assert Asset("adaptive://job/departures") in operator.outlets


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


def test_spec_survives_the_way_to_the_triggerer(make):
    spec = staged(make(conf={"spark.task.maxFailures": 8}, application_args=["--from", 1]))
    assert decode(JobSpec, encode(spec)) == spec


def test_code_is_staged_where_spark_finds_it(make, tmp_path):
    spec = staged(make())
    assert spec.script.startswith(f"file://{tmp_path}/jobs/departures/code/")
    assert spec.py_files[0].endswith(".zip")


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
