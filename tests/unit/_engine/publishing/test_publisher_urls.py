"""The addresses of Spark's web pages after an observation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive._core.ports import ClusterSnapshot, LogPages
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.view import Urls, is_web_address
from airflow_adaptive._engine.observation.job_observation import JobObservation
from airflow_adaptive._engine.publishing.publisher import updated_urls

STATUS = DriverStatus(
    job="j", epoch=1, nonce="n", sequence=1, at="", state=DriverState.RUNNING, ui_url="http://driver:4040"
)
PAGES = {"driver-1": LogPages(stdout="http://w/1/stdout", stderr="http://w/1/stderr")}
CLUSTER = ClusterSnapshot(workers=(), ui_url="http://master", log_pages=PAGES)
RUNNING = Urls(
    master="http://master",
    driver="http://driver:4040",
    executors="http://driver:4040/executors/",
    stdout="http://w/1/stdout",
    stderr="http://w/1/stderr",
)


def test_addresses_of_a_running_driver_are_those_of_its_submission() -> None:
    assert updated_urls(Urls(), JobObservation(status=STATUS, cluster=CLUSTER), "driver-1") == RUNNING


def test_driver_without_a_submission_id_has_no_output_yet() -> None:
    assert updated_urls(Urls(), JobObservation(cluster=CLUSTER), None) == Urls(master="http://master")


def test_output_remains_after_the_end_of_the_driver_until_the_next_driver_has_output() -> None:
    ended = updated_urls(RUNNING, JobObservation(cluster=CLUSTER), "driver-2")
    assert ended == replace(RUNNING, driver=None, executors=None)


def test_addresses_of_the_cluster_remain_while_the_cluster_is_unknown() -> None:
    assert updated_urls(RUNNING, JobObservation(status=STATUS), "driver-1") == RUNNING


@pytest.mark.parametrize(
    ("url", "is_address"),
    [("http://a", True), ("https://a", True), ("javascript:alert(1)", False), ("http://[", False), (None, False)],
)
def test_only_web_addresses_are_links(url: object, is_address: bool) -> None:
    assert is_web_address(url) is is_address
