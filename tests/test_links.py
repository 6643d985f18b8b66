"""The extra links: what the loop pushed is what the buttons lead to."""

from __future__ import annotations

import pytest
from airflow.sdk import BaseOperatorLink
from airflow.sdk.types import TaskInstanceKey

from airflow_adaptive.links import SparkDriverLink, SparkMasterLink
from tests.comms import FakeComms

KEY = TaskInstanceKey(dag_id="d", task_id="t", run_id="r", map_index=-1)


@pytest.mark.parametrize(
    ("link", "url"), [(SparkMasterLink(), "http://master:8080"), (SparkDriverLink(), "http://driver:4040")]
)
def test_link_leads_to_the_address_that_was_pushed(
    monkeypatch: pytest.MonkeyPatch, link: BaseOperatorLink, url: str
) -> None:
    airflow = FakeComms.install(monkeypatch)
    airflow.xcoms = {"spark_master_url": "http://master:8080", "spark_driver_url": "http://driver:4040"}
    assert link.get_link(None, ti_key=KEY) == url  # type: ignore[arg-type]


@pytest.mark.parametrize("link", [SparkMasterLink(), SparkDriverLink()])
def test_link_is_empty_while_the_address_is_unknown(monkeypatch: pytest.MonkeyPatch, link: BaseOperatorLink) -> None:
    FakeComms.install(monkeypatch)
    assert link.get_link(None, ti_key=KEY) == ""  # type: ignore[arg-type]
