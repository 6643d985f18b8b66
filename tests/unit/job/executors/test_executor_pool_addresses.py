from __future__ import annotations

import pytest

from airflow_adaptive.job.executors.executor_pool import executor_worker
from airflow_adaptive.job.hadoop_directory import hadoop_uri


@pytest.mark.parametrize(
    ("uri", "hadoop"),
    [
        ("s3://bucket/base/job/", "s3a://bucket/base/job"),
        ("s3a://bucket/job", "s3a://bucket/job"),
        ("file:///tmp/job", "file:///tmp/job"),
        ("hdfs://name:8020/job", "hdfs://name:8020/job"),
    ],
)
def test_uris_are_translated_for_hadoop(uri, hadoop):
    assert hadoop_uri(uri) == hadoop


@pytest.mark.parametrize(
    ("log_url", "address"),
    [
        ("http://10.0.0.7:8081/logPage/?appId=app-1&executorId=0&logType=stdout", "http://10.0.0.7:8081"),
        ("/proxy/worker-1/logPage/?appId=app-1", ""),
        ("", ""),
    ],
)
def test_the_address_of_a_worker_is_read_from_the_url_of_an_executor_log(log_url, address):
    assert executor_worker({}, {"stdout": log_url}) == address


def test_the_worker_of_an_executor_without_logs_is_unknown():
    assert executor_worker({}, {}) == ""


def test_executor_that_knows_the_name_of_its_node_reports_the_name():
    assert executor_worker({"NODE_NAME": "node-1"}, {"stdout": "http://10.0.0.7:8081/logPage/"}) == "node-1"
