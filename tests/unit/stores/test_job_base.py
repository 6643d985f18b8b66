"""The folder in which a job was deployed last, in the state store of its asset."""

from __future__ import annotations

import pytest

from airflow_adaptive.stores.job_base import BASE, deployed_base, record_base
from tests.support.airflow.fake_supervisor import FakeComms


def test_folder_is_recorded_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = FakeComms.install(monkeypatch)
    assert deployed_base("departures") is None
    record_base("departures", "s3://bucket/jobs")
    assert (deployed_base("departures"), airflow.asset_states) == ("s3://bucket/jobs", {BASE: "s3://bucket/jobs"})


@pytest.mark.parametrize("stored", [7, ["s3://bucket"], {"base": "s3://bucket"}], ids=repr)
def test_value_that_is_no_text_counts_as_not_deployed(monkeypatch: pytest.MonkeyPatch, stored: object) -> None:
    FakeComms.install(monkeypatch).asset_states = {BASE: stored}
    assert deployed_base("departures") is None
