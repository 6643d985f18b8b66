from __future__ import annotations

import pytest

from airflow_adaptive.job.executors.executor_pool import worker_address
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
    assert worker_address(log_url) == address
