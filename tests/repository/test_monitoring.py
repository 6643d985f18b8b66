"""docs/monitoring: the mapping covers each metric of a job, and alerts and dashboard use metrics that the mapping produces."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from airflow_adaptive._airflow.store.airflow_metrics import PREFIX
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._core.view import STATE_NAMES
from tests.support.repository import METRICS, ROOT

FOLDER = ROOT / "docs" / "monitoring"
NAME = re.compile(r"\bairflow_adaptive_\w+")


def mapped(statsd: str) -> tuple[str, dict[str, str]] | None:
    """Return the name and labels of the first mapping that matches, as the StatsD exporter does."""
    for mapping in yaml.safe_load((FOLDER / "statsd-mapping.yaml").read_text())["mappings"]:
        if found := re.match(mapping["match"], statsd):
            labels = {label: expanded(value, found) for label, value in mapping["labels"].items()}
            return expanded(mapping["name"], found), labels
    return None


def expanded(template: str, found: re.Match[str]) -> str:
    return found.expand(re.sub(r"\$\{?(\d)\}?", r"\\g<\1>", template))


def statsd_name(metric: str, job: str) -> str:
    _, tag = METRICS[metric]
    return ".".join(filter(None, ("airflow", PREFIX, job, metric, tag and "value")))


@pytest.mark.parametrize("job", ["departures", "flights.streams.departures"])
@pytest.mark.parametrize("metric", METRICS)
def test_each_metric_has_the_labels_of_its_tags(metric: str, job: str) -> None:
    found = mapped(statsd_name(metric, job))
    assert found is not None
    name, labels = found
    _, tag = METRICS[metric]
    assert name.removesuffix("_total") == f"airflow_adaptive_{metric}"
    assert labels == {"job": job} | ({} if tag is None else {tag: "value"})


def expressions() -> list[str]:
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
    board: Any = json.loads((FOLDER / "dashboard.json").read_text())
    return [rule["expr"] for rule in rules] + [it["expr"] for panel in board["panels"] for it in panel["targets"]]


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    produced = {found[0] for metric in METRICS if (found := mapped(statsd_name(metric, "departures")))}
    used = {name for expression in expressions() for name in NAME.findall(expression)}
    assert len(expressions()) > 10
    assert used <= produced
    values = re.findall(r'(state|reason_code)=~?"([^"]+)"', " ".join(expressions()))
    assert {name for kind, names in values if kind == "state" for name in names.split("|")} <= {*STATE_NAMES}
    assert {name for kind, names in values if kind == "reason_code" for name in names.split("|")} <= {*ReasonCode}


def test_counters_outlive_the_windows_of_the_alerts() -> None:
    mappings = yaml.safe_load((FOLDER / "statsd-mapping.yaml").read_text())["mappings"]
    assert [it.get("ttl") for it in mappings if it["name"].endswith("_total")] == ["168h", "168h"]
