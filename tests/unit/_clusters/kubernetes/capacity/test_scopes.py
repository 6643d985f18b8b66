"""The scopes of a quota."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.quota import is_in_scope

WITH_REQUEST = {"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}
WITH_LIMIT = {"containers": [{"name": "a"}], "initContainers": [{"name": "b", "resources": {"limits": {"cpu": "1"}}}]}
WITHOUT = {"containers": [{"name": "a", "resources": {}}]}


def test_a_quota_without_scopes_counts_all_pods():
    assert is_in_scope({}, WITHOUT)


@pytest.mark.parametrize(
    ("scope", "spec", "expected"),
    [
        ("BestEffort", WITHOUT, True),
        ("BestEffort", WITH_REQUEST, False),
        ("BestEffort", WITH_LIMIT, False),
        ("NotBestEffort", WITH_LIMIT, True),
        ("NotBestEffort", WITHOUT, False),
        ("Terminating", {"activeDeadlineSeconds": 0}, True),
        ("Terminating", {}, False),
        ("NotTerminating", {"activeDeadlineSeconds": 1}, False),
        ("NotTerminating", {}, True),
        ("CrossNamespacePodAffinity", {}, False),
        ("VolumeAttributesClass", {}, False),
    ],
)
def test_a_scope_selects_pods(scope: str, spec: dict[str, Any], *, expected: bool):
    assert is_in_scope({"scopes": [scope]}, spec) is expected
    selector = {"matchExpressions": [{"scopeName": scope, "operator": "Exists"}]}
    assert is_in_scope({"scopeSelector": selector}, spec) is expected


@pytest.mark.parametrize(
    ("operator", "name", "expected"),
    [
        ("In", "high", True),
        ("In", "low", False),
        ("In", None, False),
        ("NotIn", "high", False),
        ("NotIn", "low", True),
        ("NotIn", None, True),
        ("Exists", "low", True),
        ("Exists", None, False),
        ("DoesNotExist", None, True),
        ("DoesNotExist", "low", False),
    ],
)
def test_a_scope_of_a_priority_class(operator: str, name: str | None, *, expected: bool):
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}
    spec = {"priorityClassName": name} if name else {}
    assert is_in_scope({"scopeSelector": {"matchExpressions": [expression]}}, spec) is expected


def test_all_scopes_must_match():
    assert is_in_scope({"scopes": ["NotTerminating", "BestEffort"]}, WITHOUT)
    assert not is_in_scope({"scopes": ["Terminating", "BestEffort"]}, WITHOUT)
