"""The command line of the embedded cluster, where it is used wrongly."""

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
