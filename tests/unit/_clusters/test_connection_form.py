"""The form of connections, and the fields that the parser reads."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from airflow_adaptive._clusters import connection_fields
from airflow_adaptive._clusters.connection_form import connection_type
from airflow_adaptive._clusters.kubernetes import address as kubernetes_address
from airflow_adaptive._clusters.standalone import address as standalone_address
from airflow_adaptive.hooks.adaptive_spark import AdaptiveSparkHook

FIELDS: dict[str, Any] = connection_type()["conn-fields"]


def test_form_has_every_field_that_the_parser_reads() -> None:
    modules = (connection_fields, kubernetes_address, standalone_address)
    read = {name for module in modules for name in re.findall(r'extra\.get\("([\w-]+)"', inspect.getsource(module))}
    assert set(FIELDS) == read - {"conf"}, "Airflow would not mask a secret that a user writes into the field conf"


def test_each_field_may_be_empty_and_names_its_cluster_manager() -> None:
    for name, field in FIELDS.items():
        assert "null" in field["schema"]["type"], name
        assert "default" not in field["schema"], name  # Airflow's form would write the default into each connection.
        assert field["schema"]["section"] in ("All clusters", "Spark standalone", "Kubernetes")
        assert field["label"]
        assert field["description"]


@pytest.mark.parametrize("name", ["secret-conf", "secret-env"])
def test_airflow_masks_all_values_of_secret_fields(name: str) -> None:
    from airflow._shared.secrets_masker import redact  # noqa: PLC0415

    assert redact({name: "spark.region=hush"}) == {name: "***"}
    assert redact({name: {"spark.region": "hush"}}) == {name: {"spark.region": "***"}}


def test_airflow_finds_the_form_and_the_hook() -> None:
    manager = ProvidersManager()
    widgets = [name for name in manager.connection_form_widgets if name.startswith("extra__adaptive_spark__")]
    assert {name.rpartition("__")[2] for name in widgets} == set(FIELDS)
    assert set(manager.field_behaviours["adaptive_spark"]["hidden_fields"]) == {"schema", "login"}
    found = ProvidersManagerTaskRuntime().hooks["adaptive_spark"]
    assert found is not None
    assert (found.hook_class_name, found.hook_name) == (connection_type()["hook-class-name"], "Adaptive Spark")
    assert AdaptiveSparkHook(**{found.connection_id_attribute_name: "spark_test"}).spark_conn_id == "spark_test"
    assert found.connection_testable
