"""The composition root: the job directory that a URI names."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.launch.job_ports import job_directory


@pytest.mark.parametrize("base", ["jobs", "./jobs", "file://jobs", ""])
def test_directory_that_is_not_absolute_is_refused(base: str) -> None:
    """Worker, triggerer and cluster would each use a different folder."""
    with pytest.raises(ValueError, match="is not absolute: write file:///folder"):
        job_directory(base, "departures")


def test_directory_of_a_job_is_a_folder_of_its_base(tmp_path: Path) -> None:
    uris = {job_directory(base, "departures").uri for base in (f"file://{tmp_path}", str(tmp_path))}
    assert uris == {f"file://{tmp_path}/departures"}
