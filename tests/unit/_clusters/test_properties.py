"""The Spark properties of a driver on every cluster manager, and secret ones, whose values are masked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive._clusters.properties import (
    common_properties,
    masked,
    secret_values,
    standalone_properties,
    to_file,
)
from airflow_adaptive._core.ports import DriverSubmission, SubmissionRefusedError

SUBMISSION = DriverSubmission(
    name="departures",
    epoch=1,
    nonce="n",
    script="s.py",
    executors=2,
    max_executors=5,
    executor_cores=3,
    executor_memory_mb=700,
)


@pytest.mark.parametrize("properties", [common_properties, standalone_properties])
def test_executors_have_the_declared_size_and_queries_share_them(properties):
    conf = properties(SUBMISSION)
    assert (conf["spark.executor.cores"], conf["spark.executor.memory"]) == ("3", "700m")
    assert conf["spark.scheduler.mode"] == "FAIR"


@pytest.mark.parametrize("properties", [common_properties, standalone_properties])
@pytest.mark.parametrize("executors", [0, 6])
def test_number_of_executors_out_of_bounds_is_refused(properties, executors):
    with pytest.raises(SubmissionRefusedError, match=r"'departures' .* in 1\.\.5"):
        properties(replace(SUBMISSION, executors=executors))


def test_standalone_session_starts_with_its_executors_and_may_grow():
    conf = standalone_properties(SUBMISSION)
    assert conf["spark.cores.max"] == "15"
    allocation = "spark.dynamicAllocation."
    assert conf[f"{allocation}enabled"] == "true"
    assert [conf[f"{allocation}{bound}Executors"] for bound in ("initial", "min", "max")] == ["2", "2", "5"]


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.azure.account.key.flights.dfs.core.windows.net",
        "spark.hadoop.google.cloud.auth.service.account.private.key",
        "spark.ssl.keyPassword",
        "spark.my.api-key",
        "spark.my.PASSPHRASE",
        "spark.my.credential",
        "spark.hadoop.fs.azure.sas.flights.blob.core.windows.net",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.kafka.sasl.jaas.config",
        "MYSQL_PWD",
        "PGPASSWORD",
        "dbPwd",
        "oauthTokenValue",
        "fs.obs.secretkey",
        "SENTRY_DSN",
        "ACCESS_TOKENS",
    ],
)
def test_property_that_holds_a_secret_is_known_by_its_name(name: str) -> None:
    assert secret_values({name: "hush"}, frozenset(), {}) == ["hush"]


@pytest.mark.parametrize(
    "name",
    [
        "spark.executor.memory",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.hadoop.fs.azure.account.auth.type",
        "spark.hadoop.fs.azure.account.keyprovider.flights",
        "spark.sql.shuffle.partitions",
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "spark.my.maxTokens",
        "PWD",
        "OLDPWD",
        "spark.hadoop.fs.azure.sas.token.provider.type",
        "spark.kubernetes.authenticate.oauthTokenFile",
        "spark.security.credentials.hive.enabled",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "spark.hadoop.fs.s3a.proxy.host",
        "spark.hadoop.google.cloud.auth.service.account.enable",
        "spark.my.kansas",
        "spark.my.partition.key",
    ],
)
def test_other_properties_are_none(name: str) -> None:
    assert secret_values({name: "hush"}, frozenset(), {}) == []


def test_secret_that_is_a_part_of_another_does_not_save_the_rest() -> None:
    assert masked("a hush-hush-hush b hush-hush", ["hush-hush", "hush-hush-hush"]) == "a *** b ***"


@pytest.mark.parametrize("value", ["", "1", "true", "false", "8443"])
def test_words_that_are_no_secrets_stay(value: str) -> None:
    assert masked(f"it is {value} here", [value]) == f"it is {value} here"


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a=b:c#d!e", "k=a=b:c#d!e"),
        ("two\nlines\r\f", "k=two\\nlines\\r\\f"),
        ("C:\\x", "k=C:\\\\x"),
        (" leading", "k=\\ leading"),
        ("\ttab", "k=\\ttab"),
        ("ü", "k=ü"),
    ],
)
def test_values_in_the_file(value: str, line: str):
    assert to_file({"k": value}) == f"{line}\n"


def test_names_in_the_file():
    assert to_file({"a:b c=d": "v", "a": "v"}) == "a=v\na\\:b\\ c\\=d=v\n"
