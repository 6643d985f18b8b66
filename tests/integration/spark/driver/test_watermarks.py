"""A query with several watermarks closes the same windows with a rescale after each batch as without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.driver import watermark_experiment
from tests.support.driver.experiment import run_experiment


@pytest.mark.long
@pytest.mark.timeout(600)
def test_windows_close_although_the_query_restarts_after_each_batch(tmp_path: Path) -> None:
    windows = run_experiment(watermark_experiment, tmp_path)
    assert windows["restarted"] == windows["steady"] > 0
