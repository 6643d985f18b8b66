"""What the demo checks before it starts a process."""

from __future__ import annotations

import sys

import pytest

from airflow_adaptive.local.__main__ import main
from airflow_adaptive.local.demo import prerequisites
from airflow_adaptive.local.waiting import LocalClusterError

REPAIR = f"{sys.executable} -m pip install --force-reinstall --no-deps pyspark==4.3.0"


def fail_to_find_java() -> None:
    raise LocalClusterError("install Java 17")


def test_this_environment_has_all_prerequisites() -> None:
    prerequisites.check_prerequisites()


def test_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "PACKAGES", ("pyarrow", "no_such_package"))
    with pytest.raises(prerequisites.PrerequisiteError, match=r"needs no_such_package.*\n.*install '.*\[demo\]'$"):
        prerequisites.check_prerequisites()


def test_demo_on_kubernetes_needs_another_extra_and_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "find_java", fail_to_find_java)
    prerequisites.check_prerequisites(on_kubernetes=True)
    monkeypatch.setattr(prerequisites, "KUBERNETES_PACKAGES", ("no_such_package",))
    with pytest.raises(prerequisites.PrerequisiteError, match=r"needs no_such_package.*\n.*\[demo,kubernetes\]'$"):
        prerequisites.check_prerequisites(on_kubernetes=True)


def test_demo_with_kafka_needs_another_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "find_java", lambda: None)
    monkeypatch.setattr(prerequisites, "KAFKA_PACKAGES", ("no_such_package",))
    with pytest.raises(prerequisites.PrerequisiteError, match=r"needs no_such_package.*\n.*\[demo,kafka\]'$"):
        prerequisites.check_prerequisites(with_kafka=True)


def test_damaged_pyspark_ends_the_demo_with_the_command_that_repairs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prerequisites, "repair_command", lambda: REPAIR)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == REPAIR


def test_missing_java_ends_the_demo_with_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prerequisites, "find_java", fail_to_find_java)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "install Java 17\n"
