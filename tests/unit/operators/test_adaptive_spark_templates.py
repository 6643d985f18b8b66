"""Parameters of the operator that are templates, and the default of `deferrable`."""

import pytest

from airflow_adaptive.autoscaling.advisor import policy_to_text
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.scheduler.requirements import ParallelismRange
from tests.support.airflow.operator_fakes import FakeInstance, deferral, staged

pytestmark = pytest.mark.usefixtures("spark_default")

DEFAULT = "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"
POLICY = LoadPolicy(dry_run=True)


@pytest.mark.parametrize("bounds", ["({{ low }}, {{ low + 2 }})", "[2, 4]", ("{{ low }}", "4")])
def test_bounds_are_rendered(make, bounds):
    operator = make(parallelism=bounds, max_parallelism="{{ 4 * low }}")
    operator.render_template_fields({"low": 2})
    spec = staged(operator)
    assert spec.graph.requirements == {"job": ParallelismRange(2, 4)}
    assert spec.graph.max_parallelism == {"job": 8}


def test_sizes_and_policy_are_rendered(make):
    operator = make(
        parallelism=(1, 2),
        executor_cores="{{ cores }}",
        executor_memory="{{ cores }}g",
        driver_cores="{{ cores }}",
        rescale_policy="{{ policy }}",
    )
    operator.render_template_fields({"cores": 2, "policy": policy_to_text(POLICY)})
    spec = staged(operator)
    assert (spec.executor.cores, spec.executor.memory_mb, spec.driver.cores) == (2, 2048, 2)
    assert spec.rescale_policy == policy_to_text(POLICY)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"executor_cores": "many"}, "executor_cores"),
        ({"rescale_policy": '{"no": "policy"}'}, "cannot read the policy"),
    ],
)
def test_text_that_is_no_value_is_refused(make, changes, error):
    with pytest.raises(ValueError, match=error):
        staged(make(**changes))


def test_job_is_deferred_unless_the_environment_turns_deferral_off(make, airflow, monkeypatch):
    monkeypatch.delenv(DEFAULT, raising=False)
    deferral(make().execute, {"ti": FakeInstance()})
    monkeypatch.setenv(DEFAULT, "True")
    assert make().deferrable
    monkeypatch.setenv(DEFAULT, "False")
    assert not make().deferrable
    assert make(deferrable=True).deferrable


def test_worker_slot_of_a_job_that_is_not_deferred_by_default_is_reported(make, airflow, monkeypatch, task_log):
    event = {"status": "finished", "outcome": "FINISHED", "restarts": 0, "rescales": 0}
    monkeypatch.setattr("airflow_adaptive.operators.adaptive_spark.run_job_loop", lambda *_: _event(event))
    monkeypatch.setenv(DEFAULT, "False")
    make(deferrable=False).execute({"ti": FakeInstance()})
    assert "occupies a worker slot" not in task_log()
    make().execute({"ti": FakeInstance()})
    assert "occupies a worker slot, because the administrator set [operators] default_deferrable to false" in task_log()


async def _event(event):
    return event
