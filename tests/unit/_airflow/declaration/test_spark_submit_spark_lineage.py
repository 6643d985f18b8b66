"""The lineage that Spark reports itself: its parent is the run of the task, and its transport the one of Airflow."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from airflow.providers.openlineage.utils import spark

from airflow_adaptive._airflow.declaration.spark_submit import PARENT, TRANSPORT, is_on, with_lineage

DECLARED = {"spark.my.setting": "1"}
PARENT_RUN = {"spark.openlineage.parentRunId": "run", "spark.openlineage.parentJobName": "dag.task"}
TRANSPORT_HTTP = {
    "spark.openlineage.transport.type": "http",
    "spark.openlineage.transport.url": "http://lineage:5000",
    "spark.openlineage.transport.auth.type": "api_key",
    "spark.openlineage.transport.auth.apiKey": "hush-hush",
    "spark.openlineage.transport.headers.X-Tenant": "team",
}


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "_get_parent_job_information_as_spark_properties", lambda _: PARENT_RUN)
    monkeypatch.setattr(spark, "_get_transport_information_as_spark_properties", lambda: TRANSPORT_HTTP)


def properties(declared: dict[str, str] | None = None, *, parent: bool = False, transport: bool = False) -> Any:
    return with_lineage(declared or DECLARED, {}, parent=parent, transport=transport)


def test_job_without_a_request_for_lineage_keeps_its_properties() -> None:
    assert properties() == DECLARED


def test_run_of_the_task_is_the_parent() -> None:
    assert properties(parent=True) == DECLARED | PARENT_RUN


def test_parent_that_the_job_declares_stays() -> None:
    declared = {"spark.openlineage.parentRunId": "mine"}
    assert properties(declared, parent=True) == declared


def test_transport_is_added_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = properties(transport=True)
    names = ("type", "url", "auth.type")
    assert found == DECLARED | {
        name: TRANSPORT_HTTP[name] for name in (f"spark.openlineage.transport.{it}" for it in names)
    }
    assert "spark.openlineage.transport.auth.apiKey, spark.openlineage.transport.headers.X-Tenant" in caplog.text
    assert "'secret-conf'" in caplog.text
    assert "hush-hush" not in caplog.text


def test_transport_does_not_replace_the_parent() -> None:
    both = properties(parent=True, transport=True)
    assert {name: both[name] for name in DECLARED | PARENT_RUN} == DECLARED | PARENT_RUN
    assert both["spark.openlineage.transport.type"] == "http"


def test_header_that_the_job_declares_itself_stays() -> None:
    declared = {
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.headers.X-Tenant": "mine",
    }
    assert properties(declared, parent=True) == declared | PARENT_RUN


def test_missing_provider_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.utils", None)
    with pytest.raises(ValueError, match=r"install airflow-adaptive\[openlineage\] on the workers"):
        properties(parent=True)


@pytest.mark.parametrize("option", [PARENT, TRANSPORT])
@pytest.mark.parametrize(
    ("configured", "declared", "expected"), [(True, None, True), (True, False, False), (False, True, True)]
)
def test_task_overrides_the_administrator(
    monkeypatch: pytest.MonkeyPatch, option: str, configured: bool, declared: bool | None, expected: bool
) -> None:
    monkeypatch.setenv(f"AIRFLOW__OPENLINEAGE__{option.upper()}", str(configured))
    assert is_on(declared, option) is expected


@pytest.mark.parametrize("option", [PARENT, TRANSPORT])
def test_lineage_is_off_by_default(option: str) -> None:
    assert not is_on(None, option)
