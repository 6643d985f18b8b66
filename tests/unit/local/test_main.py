"""The command line of the cluster and the demo with wrong arguments."""

from __future__ import annotations

import pytest

from airflow_adaptive.local.__main__ import main


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
