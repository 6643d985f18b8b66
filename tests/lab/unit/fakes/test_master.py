"""The JSON of a fake master, which the real readers of the client understand. The contract of the client covers a leading master."""

from __future__ import annotations

import json

import pytest

from airflow_adaptive.spark.standalone.errors import NotLeadingError
from airflow_adaptive.spark.standalone.rest import read_kill, read_state, read_status, read_submission
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.master import answer, request_kind, standby_answer

UI, REST = "http://master-2:8080/json/", "http://master-2:6066/v1/submissions"


def test_a_standby_master_publishes_no_cluster():
    with pytest.raises(NotLeadingError):
        read_state(json.loads(standby_answer(UI)), "spark://master-2:7077", UI)


@pytest.mark.parametrize(("kind", "read"), [("create", read_submission), ("status", read_status), ("kill", read_kill)])
def test_a_standby_master_refuses_requests_about_drivers(kind, read):
    url = f"{REST}/{kind}/driver-1"
    assert request_kind(url) == kind
    with pytest.raises(NotLeadingError):
        read(json.loads(standby_answer(url)))


@pytest.mark.asyncio
async def test_a_master_serves_no_other_url():
    with pytest.raises(LookupError):
        await answer(FakeCluster(), "DELETE", UI, b"")
