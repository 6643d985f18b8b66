"""Parameters of the operator that are templates, and the default of `deferrable`."""

import pytest
from airflow.sdk import DAG
from jinja2 import UndefinedError

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.advisor import policy_to_text
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
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


CONTEXT = {
    "code": "007",
    "options": {"a": [1, "x"], "b": None},
    "number": 5,
    "version": "1.10",
    "flag": True,
    "word": "None",
}


@pytest.fixture
def native(make):
    """Return the operator in a DAG with native templates, rendered."""

    def render(**changes):
        with DAG("native", schedule=None, render_template_as_native_obj=True):
            operator = make(**changes)
        operator.render_template_fields(CONTEXT)
        return operator

    return render


LITERALS = (
    "1_000",
    "1.10",
    "1e3",
    "True",
    "None",
    '{"k": "v", "t": true}',
    "[1,2]",
    "0x10",
    "",
    " padded ",
    "(1)",
    "'a'",
)
TEMPLATES = {
    "{{ code }}": "007",
    "{{ version }}": "1.10",
    "{{ version }}{{ number }}": "1.105",
    "{{ word }}": "None",
    "{{ number }}": "5",
    "{{ flag }}": "True",
    "{{ options }}": '{"a": [1, "x"], "b": null}',
    "{{ options.a }}": '[1, "x"]',
    "{{ options.a | tojson }}": '[1, "x"]',
    "x{{ options.a }}": "x[1, 'x']",
    "{{ options.b or '' }}": "",
}


def test_native_templates_do_not_change_text(native):
    spec = staged(native(application_args=[*LITERALS, *TEMPLATES]))
    assert spec.args == (*LITERALS, *TEMPLATES.values())


@pytest.mark.parametrize("field", ["env_vars", "conf"])
def test_native_templates_do_not_change_values(native, field):
    values = {f"spark.x{number}": text for number, text in enumerate((*LITERALS, *TEMPLATES))}
    found = getattr(staged(native(**{field: values})), field.removesuffix("_vars"))
    assert [found[name] for name in values] == [*LITERALS, *TEMPLATES.values()]


def test_native_templates_are_lists_mappings_and_numbers(native):
    operator = native(
        application_args="{{ ['a', number] }}",
        conf="{{ {'spark.x': number} }}",
        name="{{ number }}",
        parallelism="{{ (1, number) }}",
        executor_cores="{{ number }}",
        namespace="{{ options.b }}",
    )
    spec = staged(operator)
    assert (spec.args, spec.conf["spark.x"], spec.conf["spark.app.name"]) == (("a", "5"), "5", "5")
    assert (spec.graph.requirements, spec.executor.cores) == ({"job": ParallelismRange(1, 5)}, 5)
    assert operator.namespace is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {"application_args": ["a", "{{ options.b }}"]},
            r"application_args\[1\] is None, which has no text for the script",
        ),
        ({"env_vars": {"A": "{{ options.b }}"}}, r"env_vars\['A'\] is None"),
        ({"conf": {"spark.a": "{{ options.b }}"}}, r"conf\['spark.a'\] is None"),
        ({"jars": ["{{ options.b }}"]}, "jars must be a list"),
        ({"jars": ["{{ options.a }}"]}, "jars must be a list"),
        ({"conn_id": "{{ options.b }}"}, "conn_id None must be text"),
        ({"name": "{{ options }}"}, r"name \{'a': \[1, 'x'\], 'b': None\} must be text"),
        ({"properties_file": "{{ options }}"}, "properties_file .* must be text"),
        ({"labels": {"a": "{{ options.b }}"}}, r"labels\['a'\] is None"),
    ],
)
def test_values_without_text_are_refused_with_the_field(native, changes, error):
    with pytest.raises(ValueError, match=error):
        staged(native(**changes))


def test_none_is_refused_without_templates_as_well(make):
    with pytest.raises(ValueError, match=r"application_args\[0\] is None"):
        staged(make(application_args=[None]))


@pytest.mark.parametrize(
    "changes", [{"application_args": ["a\x00b"]}, {"env_vars": {"A\x00": "1"}}, {"conf": {"spark.a": "\ud800"}}]
)
def test_characters_that_no_process_can_receive_are_refused(make, changes):
    with pytest.raises(ValueError, match="contains a character that no process can receive"):
        staged(make(**changes))


@pytest.mark.parametrize("text", ["-" * 100_000 + "1", "[" * 300, "9" * 5000, "1+1j", "{1: 2}", "10**10**10"])
def test_text_that_is_no_number_is_one_error(make, text):
    with pytest.raises(ValueError, match="parallelism"):
        staged(make(parallelism=text))


def test_unknown_name_in_a_native_template_is_an_error(native):
    with pytest.raises(UndefinedError, match="'unknown' is undefined"):
        native(application_args=["{{ unknown }}"])


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
