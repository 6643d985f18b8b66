"""A real Airflow that does not start leaves nothing behind. The other tests of this folder use one that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.local import guardian
from airflow_adaptive.local.airflow import (
    LocalAirflowError,
)
from tests.support.airflow.airflow_under_test import AirflowUnderTest


@pytest.mark.long
def test_component_that_does_not_start_is_reported_with_its_log_and_nothing_is_left(tmp_path: Path) -> None:
    broken = AirflowUnderTest(tmp_path / "home", tmp_path, config={"core": {"executor": "NoSuchExecutor"}})
    with pytest.raises(LocalAirflowError, match="NoSuchExecutor"):
        broken.start()
    assert guardian.marked(broken._mark) == []
