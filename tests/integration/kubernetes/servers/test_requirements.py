"""A machine that cannot run the test cluster fails with one line, and never reports success."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kubernetes import requirements
from tests.support.kubernetes.requirements import CONTEXT_VARIABLE, MissingRequirementError
from tests.support.repository import ROOT

HERE = "tests/integration/kubernetes"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, cwd=ROOT, env=variables
    )


def test_missing_go_is_one_line(tmp_path: Path):
    found = run("tests.support.kubernetes.requirements", PATH=str(tmp_path))
    assert found.returncode == 1
    assert found.stderr.splitlines() == [
        "The test cluster needs Go, which builds the cluster's programs (https://go.dev/dl). "
        f"{CONTEXT_VARIABLE}=<name> selects an existing cluster."
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sys.platform", "darwin", "The test cluster needs Linux \\(this machine runs darwin\\)"),
        ("os.geteuid", lambda: 1000, "The test cluster needs root, because kubelet and containerd create containers"),
    ],
)
def test_missing_system_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: object, message: str):
    monkeypatch.setattr(f"{requirements.__name__}.{name}", value)
    with pytest.raises(MissingRequirementError, match=message):
        requirements.require_machine()


def test_missing_programs_name_the_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingRequirementError, match="pause: run .ci/build_kubernetes.sh"):
        requirements.require_programs()


def test_tests_fail_without_a_cluster(tmp_path: Path):
    result = run("pytest", "-q", f"{HERE}/servers/test_namespace.py", "-k", "quota", XDG_CACHE_HOME=str(tmp_path))
    assert result.returncode == 1
    assert "run .ci/build_kubernetes.sh" in result.stdout
    assert "Traceback" not in result.stdout


@pytest.mark.long
def test_an_existing_cluster_deselects_the_tests_that_break_a_cluster():
    result = run("pytest", "-q", "--collect-only", HERE, **{CONTEXT_VARIABLE: "existing"})
    collected = {line.partition("::")[0] for line in result.stdout.splitlines() if "::" in line}
    assert collected == {f"{HERE}/servers/test_namespace.py"}
    assert "deselected" in result.stdout
