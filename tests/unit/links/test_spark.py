"""The extra links: what the loop pushed is what the buttons lead to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperatorLink
from airflow.sdk.types import TaskInstanceKey

from airflow_adaptive._airflow.store.task_xcoms import LINKS
from airflow_adaptive.links.spark import ALL_LINKS
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_adaptive.provider_info import get_provider_info
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error

KEY = TaskInstanceKey(dag_id="d", task_id="t", run_id="r", map_index=-1)

BEGUN: Any = SimpleNamespace(has_links=True)
"""An operator that has created the XComs of the links."""


@pytest.mark.parametrize("link", ALL_LINKS)
def test_link_leads_to_the_address_that_was_pushed(monkeypatch: pytest.MonkeyPatch, link: BaseOperatorLink) -> None:
    airflow = FakeComms.install(monkeypatch)
    airflow.xcoms = {key: f"http://{name}" for key, name in LINKS.items()}
    assert link.get_link(BEGUN, ti_key=KEY) == f"http://{LINKS[link.xcom_key]}"


@pytest.mark.parametrize("link", ALL_LINKS)
def test_link_is_empty_while_the_address_is_unknown(monkeypatch: pytest.MonkeyPatch, link: BaseOperatorLink) -> None:
    FakeComms.install(monkeypatch)
    assert link.get_link(BEGUN, ti_key=KEY) == ""


@pytest.mark.parametrize("link", ALL_LINKS)
def test_link_of_a_task_that_has_not_begun_is_not_read(monkeypatch: pytest.MonkeyPatch, link: BaseOperatorLink) -> None:
    FakeComms.install(monkeypatch).error = api_server_error()
    operator = AdaptiveSparkOperator(
        task_id="t", job="j", application="a.py", job_directory="file:///jobs", parallelism=1
    )
    assert link.get_link(operator, ti_key=KEY) == ""


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//host/path", "http://[broken", 7])
def test_link_leads_to_web_pages_only(monkeypatch: pytest.MonkeyPatch, url: object) -> None:
    """A driver, which runs the code of a DAG author, reports the address of its web UI, and a user presses the button."""
    airflow = FakeComms.install(monkeypatch)
    airflow.xcoms = dict.fromkeys(LINKS, url)
    assert {link.get_link(BEGUN, ti_key=KEY) for link in ALL_LINKS} == {""}


def test_every_address_has_one_button_that_airflow_knows() -> None:
    assert sorted(link.xcom_key for link in ALL_LINKS) == sorted(LINKS)
    paths = [f"{type(link).__module__}.{type(link).__qualname__}" for link in ALL_LINKS]
    assert get_provider_info()["extra-links"] == paths
    assert len({link.name for link in ALL_LINKS}) == len(ALL_LINKS)
