"""The state as JSON: whole after a round trip, refused when it is damaged or of another version."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.snapshot import VERSION, decode, from_json, to_json
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.timeline import Timeline
from tests.lab.scenario import Scenario
from tests.support.scheduler.scenarios_by_state import SCENARIOS

DAMAGE: tuple[Any, ...] = (None, True, -1, 1e300, float("nan"), "", "moon", [], [1], {}, {"type": "Moon"})


@pytest.mark.parametrize("life", SCENARIOS)
def test_state_survives_json(life: str):
    state = SCENARIOS[life]().state
    assert from_json(json.loads(json.dumps(to_json(state)))) == state


@pytest.mark.parametrize("strategy", ["none", "fixed-delay", "failure-rate", "exponential-delay"])
def test_record_of_every_strategy_survives_json(strategy: str):
    state = Scenario(restart_strategy=strategy).given_executing(2).when_query_failed().state
    assert from_json(json.loads(json.dumps(to_json(state)))) == state


@pytest.mark.parametrize("version", [VERSION + 1, 0, None, "1"])
def test_other_version_is_refused(version: object):
    with pytest.raises(SnapshotError, match=f"snapshot of version {version!r} cannot be read by version 1: upgrade"):
        from_json({**to_json(Scenario().state), "snapshot": version})


def test_nothing_is_no_snapshot():
    with pytest.raises(SnapshotError):
        from_json({})
    with pytest.raises(SnapshotError, match="damaged snapshot: SchedulerState: KeyError: 'job'"):
        from_json({"snapshot": VERSION})


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document, as its container and key."""
    keys = data.keys() if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in list(keys):
        yield data, key
        yield from places(data[key])


@pytest.mark.parametrize("life", ["stabilized", "restarting after a failure", "stopping with a failure"])
def test_damage_is_refused_or_gives_a_state_of_the_right_types(life: str):
    document = json.loads(json.dumps(to_json(SCENARIOS[life]().state)))
    refused = 0
    for container, key in places(document):
        intact = container[key]
        for damage in DAMAGE:
            container[key] = damage
            try:
                read = from_json(document)
            except SnapshotError:
                refused += 1
            else:
                assert isinstance(read, SchedulerState)
                assert from_json(to_json(read)) == read
        container[key] = intact
    assert refused > 100


@pytest.mark.parametrize("life", ["stabilized", "restarting after a failure"])
def test_missing_field_is_refused_unless_it_has_a_default(life: str):
    document = json.loads(json.dumps(to_json(SCENARIOS[life]().state)))
    refused = 0
    for container, key in places(document):
        if isinstance(container, dict) and key not in ("type", "snapshot"):
            intact = container.pop(key)
            try:
                read = from_json(document)
            except SnapshotError:
                refused += 1
            else:
                assert from_json(to_json(read)) == read
            container[key] = intact
    assert refused > 30


@pytest.mark.parametrize("field", ["current", "requirements", "options"])
def test_state_without_what_makes_it_is_refused(field: str):
    document = to_json(Scenario().given_executing(2).state)
    del document[field]
    with pytest.raises(SnapshotError, match=f"damaged snapshot: SchedulerState: KeyError: '{field}'"):
        from_json(document)


@pytest.mark.parametrize("life", SCENARIOS)
def test_job_of_an_older_version_continues(life: str):
    state = SCENARIOS[life]().state
    document = to_json(state)
    for unknown in ("timeline", "failures", "trigger_interval", "pending_requirements"):
        del document[unknown]
    del document["options"]["history_size"]
    read = from_json(json.loads(json.dumps(document)))
    assert read == replace(state, timeline=Timeline(), failures=(), trigger_interval=None, pending_requirements=None)


@pytest.mark.parametrize("value", [None, 7, {"a": [1, {"b": None}]}])
def test_value_of_any_type_is_decoded_as_it_is(value: object):
    """Only the policy of a job knows the type of its memory."""
    assert decode(Any, encode(value)) == value


def test_time_without_a_zone_is_refused():
    document = to_json(Scenario().given_waiting().state)
    document["current"]["since"] = "2013-01-01T00:00:00"
    with pytest.raises(SnapshotError, match="has no time zone"):
        from_json(document)
