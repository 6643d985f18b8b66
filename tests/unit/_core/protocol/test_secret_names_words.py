"""Each word of the lists of words decides about a name."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.protocol.secret_names import (
    ABOUT_SECRETS,
    HADOOP_TERMS,
    KEYS_OF_DATA,
    MORE_TERMS,
    is_secret_name,
)

DESCRIPTIONS = [
    "alias",
    "algorithm",
    "budget",
    "class",
    "count",
    "enable",
    "enabled",
    "endpoint",
    "file",
    "host",
    "interval",
    "length",
    "limit",
    "location",
    "mechanism",
    "name",
    "parallelism",
    "path",
    "provider",
    "size",
    "timeout",
    "ttl",
    "type",
]

DATA = [
    "BUSINESS",
    "CACHE",
    "CLUSTER",
    "CLUSTERING",
    "COMPOSITE",
    "COMPOUND",
    "DEDUP",
    "DIST",
    "DISTRIBUTION",
    "EVENT",
    "FOREIGN",
    "GROUP",
    "GROUPING",
    "HASH",
    "IDEMPOTENCY",
    "INDEX",
    "JOIN",
    "KMS",
    "LOOKUP",
    "MAP",
    "MERGE",
    "MESSAGE",
    "NATURAL",
    "OBJECT",
    "ORDER",
    "PARTITION",
    "PARTITIONING",
    "PRIMARY",
    "PUBLIC",
    "RANGE",
    "RECORD",
    "ROUTING",
    "ROW",
    "S3",
    "SEARCH",
    "SHARD",
    "SORT",
    "SURROGATE",
    "UNIQUE",
]

SECRETS = [
    "account.key",
    "encryption.key",
    "keystore.pass",
    "session.key",
    "db.pass",
    "db.pwd",
    "fernet.key",
    "pg.pass",
    "pw",
    "credentials",
    "jaas.config",
    "master.key",
    "pass",
    "passcode",
    "pwd",
    "sas",
    "secret.key",
    "shared.key",
    "signing.key",
    "redis.auth",
    "ssh.key",
    "storage.key",
    "truststore.pass",
    "user.info",
]


@pytest.mark.parametrize("word", DESCRIPTIONS)
def test_name_that_describes_a_secret_is_not_secret(word: str) -> None:
    names = [f"my.token.{word}", f"MY_TOKEN_{word.upper()}", f"myToken{word.capitalize()}"]
    assert [name for name in names if is_secret_name(name)] == []
    assert is_secret_name(f"my.token.{word}.of")


@pytest.mark.parametrize("word", DATA)
def test_key_of_data_is_not_secret(word: str) -> None:
    assert not is_secret_name(f"{word}_KEY")
    assert is_secret_name(f"{word}X_KEY")


@pytest.mark.parametrize("name", SECRETS)
def test_name_of_a_secret_is_secret_in_each_notation(name: str) -> None:
    first, *others = name.split(".")
    camel_case = first + "".join(word.capitalize() for word in others)
    for notation in (
        f"my.{name}",
        f"MY_{name.replace('.', '_').upper()}",
        f"my-{camel_case}",
        f"my.{camel_case.lower()}",
    ):
        assert is_secret_name(notation), notation


def test_lists_contain_no_other_words() -> None:
    assert sorted(ABOUT_SECRETS) == sorted(DESCRIPTIONS)
    assert sorted(KEYS_OF_DATA) == sorted(DATA)
    assert {term.rstrip("$").replace(" ", ".") for term in HADOOP_TERMS + MORE_TERMS} == set(SECRETS)
