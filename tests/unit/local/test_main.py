"""The command line of the cluster and the demo: wrong arguments, and what is missing before a process starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_adaptive.local import __main__ as prerequisites
from airflow_adaptive.local.__main__ import main
from airflow_adaptive.local.waiting import LocalClusterError


@pytest.mark.parametrize(
    ("argument", "value", "least"),
    [("--workers", "-1", 0), ("--cores", "0", 1), ("--cores", "two", 1), ("--memory", "100", 450)],
)
def test_cluster_that_could_not_work_is_refused(
    argument: str, value: str, least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cluster", f"{argument}={value}"])
    assert ended.value.code == 2
    assert f"argument {argument}: {value!r} must be a whole number from {least}" in capsys.readouterr().err


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf", "fast"])
def test_demo_with_an_impossible_speed_is_refused(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", f"--days-per-second={speed}"])
    assert ended.value.code == 2
    assert f"{speed!r} must be a positive number" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["spark.a", "a=b"])
def test_demo_with_a_text_that_is_no_spark_property_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--context=kind", f"--conf={text}"])
    assert ended.value.code == 2
    assert f"{text!r} must be spark.NAME=VALUE" in capsys.readouterr().err


def test_demo_with_a_context_that_does_not_exist_ends_with_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\ncurrent-context: x\n")
    arguments = ["demo", "--context=kind", f"--kubeconfig={kubeconfig}", f"--directory={tmp_path / 'demo'}"]
    assert main(arguments) == 1
    found = capsys.readouterr().out
    assert f"FAILED: no kubeconfig has the context 'kind' ({kubeconfig}: " in found
    assert "--kubeconfig or KUBECONFIG" in found
    assert "the pods had the image" not in found


def test_demo_finds_the_context_in_the_files_of_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server of the context does not exist, so the demo names it."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("")
    named = {"clusters": {"cluster": {"server": "https://127.0.0.1:1"}}, "users": {"user": {"token": "t"}}}
    content = {kind: [{"name": "kind", **value}] for kind, value in named.items()}
    content["contexts"] = [{"name": "kind", "context": {"cluster": "kind", "user": "kind"}}]
    second.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "kind", **content}))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert main(["demo", "--context=kind", f"--directory={tmp_path / 'demo'}"]) == 1
    expected = f"the API server https://127.0.0.1:1 of context 'kind' in {second} cannot be reached"
    assert expected in capsys.readouterr().out


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


def test_missing_java_ends_the_demo_with_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prerequisites, "find_java", fail_to_find_java)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "install Java 17\n"
