import asyncio
import json
from typing import Any

import pytest
from airflow.sdk.serde import deserialize, serialize

from airflow_adaptive.hooks.asset_store import parse_inbox
from airflow_adaptive.ports import Inbox, Wish
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger, look_for_resources

TASK = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}


@pytest.mark.parametrize(
    "trigger",
    [
        AdaptiveJobTrigger(spec={"a": [1, None]}, conn_id="c", base="file:///x", task_key=TASK, cancel_at="2026-01-01"),
        SparkResourcesTrigger(wanted={"graph": {}}, conn_id="c", until="2026-01-01T00:00:00+00:00"),
    ],
)
def test_trigger_survives_the_database(trigger):
    path, arguments = trigger.serialize()
    restored: Any = deserialize(serialize(json.loads(json.dumps(arguments))))
    assert path == f"{type(trigger).__module__}.{type(trigger).__name__}"
    assert type(trigger)(**restored).serialize() == trigger.serialize()


def test_inbox_reads_flip_291_bodies():
    body = {"job": {"parallelism": {"lowerBound": 1, "upperBound": -1}}}
    assert parse_inbox("suspend", body) == Inbox(wish=Wish.SUSPEND, requirements={"job": (1, -1)})


@pytest.mark.parametrize(
    ("wish", "body"), [("explode", {}), ("run", {"job": 3}), ("run", {"job": {"parallelism": {}}})]
)
def test_inbox_refuses_what_it_does_not_understand(wish, body):
    with pytest.raises(ValueError, match=r"."):
        parse_inbox(wish, body)


def test_unusable_connection_is_an_error_event_that_names_it(monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_NOWHERE", raising=False)
    event = asyncio.run(look_for_resources({}, "nowhere", "2026-01-01T00:00:00+00:00"))
    assert event["status"] == "error"
    assert "nowhere" in event["message"]
