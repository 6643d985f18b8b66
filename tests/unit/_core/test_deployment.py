"""What a deployment changes: each difference with its group and its effect, no secret, and what is unknown as unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_adaptive._core.deployment import (
    MASK,
    MAX_DECLARATION,
    MAX_VALUE,
    Declaration,
    Effect,
    Group,
    Preparation,
    compare,
    declaration,
)
from airflow_adaptive._core.protocol.documents import FailureReport, PreparedQuery, StateSchema

TRUNCATED = f"Truncated. You can change this behaviour in [core]max_templated_field_length. {'a' * 4096}..."
LONG_CONF = {f"spark.a{number}": "1" for number in range(80)}
HUGE = [str(number) for number in range(20_000)]

DEPLOYED = {
    "application": "/dags/departures.py",
    "application_args": ["--airport", "HAM"],
    "conf": {"spark.sql.ansi.enabled": "true"},
    "env_vars": None,
    "executor_memory": "1g",
    "image": None,
    "job_directory": "file:///jobs",
    "max_parallelism": None,
    "parallelism": (1, 4),
    "options": {"scaling_interval_min": "30 s"},
}


def declared(code: str = "1" * 64, **changes: Any) -> Declaration:
    return declaration(DEPLOYED | changes, code=code)


@pytest.mark.parametrize(
    ("changes", "name", "group", "effect"),
    [
        ({"application": "/dags/arrivals.py"}, "application", Group.CODE, Effect.DRIVER),
        ({"application_args": ["--airport", "BER"]}, "application_args", Group.ARGUMENTS, Effect.DRIVER),
        ({"conf": {"spark.sql.ansi.enabled": "false"}}, "conf[spark.sql.ansi.enabled]", Group.CONF, Effect.DRIVER),
        ({"env_vars": {"ZONE": "UTC"}}, "env_vars[ZONE]", Group.ENVIRONMENT, Effect.DRIVER),
        ({"executor_memory": "2g"}, "executor_memory", Group.SIZES, Effect.DRIVER),
        ({"image": "spark:4.3"}, "image", Group.KUBERNETES, Effect.DRIVER),
        ({"parallelism": (1, 8)}, "parallelism", Group.BOUNDS, Effect.AT_ONCE),
        ({"max_parallelism": 16}, "max_parallelism", Group.BOUNDS, Effect.STATE),
        ({"options": {"scaling_interval_min": "0 s"}}, "options[scaling_interval_min]", Group.OPTIONS, Effect.AT_ONCE),
        ({"job_directory": "file:///other"}, "job_directory", Group.PLACE, Effect.REFUSED),
    ],
)
def test_change_has_its_group_and_its_effect(changes: Any, name: str, group: Group, effect: Effect) -> None:
    found = compare(declared(), declared(**changes))
    assert [(it.name, it.group, it.effect) for it in found.changes] == [(name, group, effect)]
    assert (found.effect, found.unknown) == (effect, ())


def test_new_code_is_a_change_by_its_digest() -> None:
    found = compare(declared(), declared(code="2" * 64))
    assert [(it.name, it.before, it.after) for it in found.changes] == [("code", "1" * 12, "2" * 12)]


def test_entry_that_is_removed_or_added_has_one_value() -> None:
    found = compare(declared(), declared(conf={"spark.a": "1"})).changes
    assert [(it.name, it.before, it.after) for it in found] == [
        ("conf[spark.sql.ansi.enabled]", "true", None),
        ("conf[spark.a]", None, "1"),
    ]


def test_equal_deployments_have_no_change() -> None:
    found = compare(declared(), declared(env_vars={}, application_args=("--airport", "HAM")))
    assert (found.changes, found.unknown, found.effect) == ((), (), None)


def test_greatest_effect_is_that_of_the_deployment() -> None:
    assert compare(declared(), declared(parallelism=(2, 4), executor_memory="2g")).effect is Effect.DRIVER


@pytest.mark.parametrize(
    ("parameters", "public"),
    [
        ({"conf": {"spark.my.password": "a"}}, {"conf": {"spark.my.password": MASK}}),
        ({"conf": {"spark.token.enabled": "true"}}, {"conf": {"spark.token.enabled": "true"}}),
        ({"application_args": ["--password", "a", "b"]}, {"application_args": ["--password", MASK, "b"]}),
        ({"application_args": ["--password=a"]}, {"application_args": [MASK]}),
        ({"image": "https://u:p@host/i"}, {"image": MASK}),
    ],
)
def test_secrets_are_masked(parameters: Any, public: Any) -> None:
    assert declaration(parameters).parameters == public


def test_nested_values_are_digests_because_any_part_may_be_secret() -> None:
    before, after = (declared(image={"env": [{"name": "PIN", "value": it}]}) for it in "12")
    (change,) = compare(before, after).changes
    assert change.name == "image[env]"
    assert change.before != change.after
    assert change.before.startswith("content ")


@pytest.mark.parametrize(
    ("before", "after", "unknown"),
    [
        ({"conf": {"spark.my.password": "a"}}, {"conf": {"spark.my.password": "b"}}, "conf[spark.my.password]"),
        ({}, {"conf": {"spark.sql.ansi.enabled": "{{ params.ansi }}"}}, "conf[spark.sql.ansi.enabled]"),
        ({}, {"application_args": ["--airport", "{{ params.airport }}"]}, "application_args"),
        ({}, {"application_args": "Truncated. You can change this behaviour in [core]"}, "application_args"),
        ({"conf": {"a": {"b": "1"}}}, {"conf": {"a": {"b": "{{ ds }}"}}}, "conf[a]"),
        ({"conf": {"a": {"pin": "***"}}}, {"conf": {"a": {"pin": "***"}}}, "conf[a]"),
        ({"conf": LONG_CONF}, {"conf": TRUNCATED}, "conf"),
        ({"conf": "{{ var.json.c }}"}, {"conf": LONG_CONF}, "conf"),
        ({"application": "a" * 300}, {"application": "a" * 300 + "{{ ds }}"}, "application"),
        ({"op_kwargs": {"a": HUGE[:900]}}, {"op_kwargs": {"a": [*HUGE[:900], "{{ ds }}"]}}, "op_kwargs[a]"),
        ({"conf": LONG_CONF}, {"conf": dict.fromkeys(HUGE, "{{ ds }}")}, "conf"),
    ],
)
def test_value_that_cannot_be_compared_is_unknown(before: Any, after: Any, unknown: str) -> None:
    found = compare(declared(**before), declared(**after))
    assert (found.changes, found.unknown) == ((), (unknown,))


def test_what_one_declaration_does_not_contain_is_unknown() -> None:
    found = compare(declared(), declaration({"parallelism": [1, 4]}))
    assert found.changes == ()
    assert found.unknown == ("code", *sorted(DEPLOYED.keys() - {"parallelism"}))


def test_running_driver_has_what_needs_no_new_driver_at_once() -> None:
    newer = declared(parallelism=(1, 8), executor_memory="2g")
    assert [it.name for it in compare(declared().with_effective(newer), newer).changes] == ["executor_memory"]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("op_kwargs", dict.fromkeys(HUGE, 1), dict.fromkeys(HUGE, 2)),
        ("conf", dict.fromkeys(HUGE, "1"), LONG_CONF),
        ("application_args", HUGE, HUGE[1:]),
        ("application_args", HUGE, ["--airport", "HAM"]),
        ("application_args", ["\n" * 4000], ["\n" * 4001]),
        ("application", "a" * 100_000, "a" * 100_001),
        ("env_vars", None, dict.fromkeys(HUGE, "1")),
    ],
)
def test_declaration_is_small_and_has_each_change_of_a_parameter(name: str, before: Any, after: Any) -> None:
    running, other = declared(**{name: before}), declared(**{name: after})
    assert all(len(json.dumps(it.parameters)) <= MAX_DECLARATION for it in (running, other))
    found = compare(running, other)
    assert ([it.name for it in found.changes], found.unknown) == ([name], ())


def test_large_declaration_equals_a_small_one_in_what_is_equal() -> None:
    running, other = declared(conf=LONG_CONF), declared(conf=LONG_CONF, op_args=HUGE)
    assert isinstance(other.parameters["conf"], str)
    found = compare(running, other)
    assert (found.changes, found.unknown) == ((), ("op_args",))


def test_every_value_of_a_large_declaration_is_short() -> None:
    found = declaration({f"p{number}": ["a" * 90] * number for number in range(40)}).parameters
    assert all(len(json.dumps(it)) <= MAX_VALUE for it in found.values())
    assert found["p1"] == ["a" * 90]


def test_long_secret_is_masked_and_has_no_digest() -> None:
    assert declared(application=f"https://u:p@host/{'a' * 300}").parameters["application"] == MASK


COUNT = StateSchema(operator="stateStoreSave")
KEPT = PreparedQuery(name="hours", state_after=(COUNT,), state_before=(COUNT,))
UNCHECKED = PreparedQuery(name="kinesis", unchecked="no copy is run")
OTHER = FailureReport(error_class="OtherStateError", message="the state belongs to another query")
REFUSED = FailureReport(error_class="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", message="long, not string")


@pytest.mark.parametrize(
    ("queries", "failure", "keeps", "reason"),
    [
        ((KEPT,), None, True, "Spark has accepted them"),
        ((KEPT, UNCHECKED), None, None, "query 'kinesis': no copy is run"),
        ((), OTHER, False, "OtherStateError: the state belongs to another query"),
        ((PreparedQuery(name="new", state_after=(COUNT,)),), None, True, "Spark has accepted them"),
        ((), None, None, "the script starts its queries itself"),
        ((), REFUSED, False, "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE: long, not string"),
        (
            (),
            FailureReport(error_class="SyntaxError", message="line 3"),
            None,
            "could not be prepared: SyntaxError: line 3",
        ),
    ],
)
def test_prepared_driver_knows_whether_the_state_is_kept(
    queries: Any, failure: FailureReport | None, keeps: bool | None, reason: str
) -> None:
    found, text = Preparation(deployment="new", queries=queries, failure=failure).keeps_state()
    assert (found, reason in text) == (keeps, True)
