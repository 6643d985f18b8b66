"""Names and values that are secret are found, and others are not."""

from __future__ import annotations

import re

import pytest
from airflow._shared.secrets_masker.secrets_masker import DEFAULT_SENSITIVE_FIELDS

from airflow_adaptive._core.protocol.secret_names import (
    ABOUT_SECRETS,
    AIRFLOW_TERMS,
    HADOOP_TERMS,
    KEYS_OF_DATA,
    MORE_TERMS,
    REDACTION_PATTERN,
    SPARK_TERMS,
    is_secret,
    is_secret_name,
    secret_assignments,
    url_passwords,
)
from tests.support.repository import ROOT

OMITTED = {"proxy", "proxies", "service_account"}
"""Words of Airflow's list that name addresses and switches of Spark."""

HADOOP_KEYS = (
    "fs.s3a.secret.key",
    "fs.s3a.bucket.flights.session.token",
    "fs.s3a.session.key",
    "fs.s3a.encryption.key",
    "fs.s3a.server-side-encryption.key",
    "fs.azure.account.key.flights.dfs.core.windows.net",
    "fs.azure.account.oauth2.client.secret",
    "fs.adl.oauth2.refresh.token",
    "fs.gs.auth.service.account.private.key",
    "ssl.keystore.pass",
    "dfs.adls.oauth2.credential",
)
"""Examples of `hadoop.security.sensitive-config-keys` that contain a secret."""


def test_names_that_airflow_masks_are_secret() -> None:
    names = set(DEFAULT_SENSITIVE_FIELDS) - OMITTED
    assert {name for name in names if not is_secret_name(name)} == set()


@pytest.mark.parametrize(
    "name",
    [
        *(f"spark.my.{term}" for term in ("secret", "password", "token", "access.key", "accesskey", "credential")),
        *HADOOP_KEYS,
        *("my.api.key", "MY_API_KEY", "myApiKey", "my-api-key", "myapikey", "MyApiKeys"),
        *("DB_PASS", "dbPass", "my.pass", "DB_CREDENTIALS", "SIGNING_KEY", "sshKey"),
        *("AIRFLOW__CORE__FERNET_KEY", "FERNET_KEY", "PGPASS", "DBPWD", "dbpwd", "dbpass", "DB_PW"),
        *("OPENAI_KEY", "STRIPE_KEYS", "MAPS_API_V3_KEY", "NPM_AUTH", "BASIC_AUTH", "spark.redis.auth"),
    ],
)
def test_names_of_spark_hadoop_variables_and_vendors_are_secret_in_any_notation(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        # Words that only begin or end like a term.
        *("TOKENIZERS_PARALLELISM", "MAX_TOKENS", "passwordless", "SECRETARY", "KANSAS", "OLDPWD", "PWD"),
        *("my.bypass", "pass.through"),
        # Descriptions, counts, hosts and paths of secrets.
        *("oauth.token.endpoint", "SECRET_FILE", "passwordProvider", "fs.azure.sas.token.provider.type"),
        *("TOKEN_COUNT", "MAX_TOKEN_COUNT", "tokenCount", "SAS_HOST", "TOKEN_BUDGET", "PGPASSFILE"),
        "GOOGLE_APPLICATION_CREDENTIALS",
        # Keys of data.
        *("KEY", "AUTH", "MONKEY", "OAUTH", "OPENAI_KEY_ID", "AUTH_MODE", "spark.acls.auth.type"),
        *("PARTITION_KEY", "MY_PRIMARY_KEY", "SORT_KEYS", "S3_KEY", "JOIN_KEY", "ROUTING_KEY", "SSH_PUBLIC_KEY"),
        *("KMS_KEY", "join.key", "--join-key", "auth", "jdbcAuth", "rowKey"),
    ],
)
def test_name_that_only_resembles_the_name_of_a_secret_is_not_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("value", ["", "true", "False"])
def test_flag_is_not_secret(value: str) -> None:
    assert not is_secret("spark.hadoop.hadoop.security.authorization", value)
    assert not is_secret("USE_TOKEN", value)


def test_url_with_a_password_is_secret_whatever_its_name() -> None:
    assert is_secret("BROKER", "amqp://me:hush@h1:5672,amqp://me:hush2@h2")
    assert url_passwords("amqp://me:hush@h1:5672,amqp://me:hush2@h2") == ["hush", "hush2"]
    assert not is_secret("BROKER", "abfss://flights@account.dfs.core.windows.net/x:y")
    assert not is_secret("MASTERS", "spark://h1:7077,h2:7077")


def test_assigned_secrets_of_a_text_are_named() -> None:
    text = "jdbc:postgresql://h/db?user=me&password=hush --max-tokens=5 -Dmy.token=x --use-token=true"
    assert list(secret_assignments(text)) == ["password", "-Dmy.token"]
    assert list(secret_assignments('{"user": "me", "db_pass": "hush", "token": true}')) == ["db_pass"]
    assert list(secret_assignments("image:latest at 10:20, secret: none")) == []


@pytest.mark.parametrize("word", ["a", "a.", "access"])
@pytest.mark.timeout(60)
def test_long_words_are_searched_in_linear_time(word: str) -> None:
    """A base64 argument is one long word. Before, each of its characters started a name, which took minutes."""
    assert list(secret_assignments(word * 50_000)) == []


def test_token_in_place_of_the_user_of_a_web_address_is_secret() -> None:
    """A user passes an address with a token and without a password, as GitHub accepts it. Before, Airflow stored it in clear text."""
    assert url_passwords("https://token@host/x, https://me:hush@host") == ["token", "hush"]
    assert is_secret("REPOSITORY", "https://token@host")
    assert not is_secret("PAGE", "https://host/users/@me")


@pytest.mark.parametrize("value", ["yes", "No", "None", " off "])
def test_switch_with_the_name_of_a_secret_is_not_secret(value: str) -> None:
    assert not is_secret("USE_AUTH", value)


@pytest.mark.parametrize(
    ("value", "passwords"),
    [
        ("postgresql://me:p/w@host/db", ["p/w"]),
        ("amqp://me:a/b/c@h1:5672,amqp://me:hush@h2", ["a/b/c", "hush"]),
        ("http://h1:80,http://me:pw@h2", ["pw"]),
        ("http://h1:8080/users/@me spark://h1:7077,h2:7077/x@y http://[::1]:8080/x@y", []),
        ("file://C:/x@y git+ssh://git@host:org/repo@v1 s3://c@b/x:y/z@w", []),
        ('{"address": "http://h:port/x", "mail": "me@host"}', []),
    ],
)
def test_password_with_a_slash_in_a_url_is_found(value: str, passwords: list[str]) -> None:
    """A generated password contains a slash. Before, Airflow stored the URL in clear text."""
    assert url_passwords(value) == passwords


JWT = ".".join(["eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "c2lnbmF0dXJl"])


@pytest.mark.parametrize(
    "value", [JWT, f"Bearer {JWT}", "-----BEGIN RSA PRIVATE KEY-----\nMIIB", "-----BEGIN PRIVATE KEY-----"]
)
def test_json_web_token_and_private_key_are_secret_whatever_their_name(value: str) -> None:
    assert is_secret("X", value)


@pytest.mark.parametrize("value", ["-----BEGIN CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----", "keyed.eyes", "a.b.c"])
def test_value_that_only_resembles_a_token_or_a_key_is_not_secret(value: str) -> None:
    assert not is_secret("X", value)


@pytest.mark.parametrize("word", ["://a:", "://a:b/", "ey-", "a.ey", "-----BEGIN ", "A_KEY", "https://a", "://1:2,"])
@pytest.mark.timeout(60)
def test_long_values_are_searched_in_linear_time(word: str) -> None:
    assert not is_secret("X", word * 30_000)


def test_runbook_lists_all_terms() -> None:
    terms = {term.rstrip("$") for term in AIRFLOW_TERMS + SPARK_TERMS + HADOOP_TERMS + MORE_TERMS}
    page = (ROOT / "docs" / "reference" / "secrets.md").read_text()
    assert {term for term in terms if f"`{term}`" not in page} == set()


SECRET_PROPERTIES = (
    *((name.replace("$", "").replace(" ", notation), "x") for name in AIRFLOW_TERMS + SPARK_TERMS for notation in "._"),
    *((name, "x") for name in HADOOP_KEYS),
    *((f"spark.my.{name.rstrip('$').replace(' ', '.')}", "x") for name in HADOOP_TERMS + MORE_TERMS),
    *(
        (name, "x")
        for name in ("OPENAI_KEY", "NPM_AUTH", "PGPASS", "DBPWD", "DB_PASS", "dbpass", "spark.redis.auth", "secretKey")
    ),
    *(("X", value) for value in ("https://token@host", "amqp://me:hush@h1", "postgresql://me:p/w@host/db")),
    *(("X", value) for value in (JWT, "-----BEGIN RSA PRIVATE KEY-----")),
)
"""A secret by the lists of Airflow, Spark and Hadoop, by an abbreviation, by a vendor's name, by a URL, and by its value."""


@pytest.mark.parametrize(("name", "value"), SECRET_PROPERTIES)
def test_spark_redacts_each_kind_of_secret(name: str, value: str) -> None:
    assert is_secret(name, value)
    assert any(re.search(REDACTION_PATTERN, text) for text in (name, value))


@pytest.mark.parametrize(
    "value", ["1", "s3a://bucket/flights", "spark://h1:7077,h2:7077", "org.apache.spark.serializer.KryoSerializer"]
)
def test_spark_redacts_no_ordinary_property(value: str) -> None:
    names = (
        "spark.sql.shuffle.partitions",
        "spark.executor.memory",
        "spark.master",
        "spark.app.name",
        "spark.hadoop.fs.s3a.endpoint",
    )
    assert not any(re.search(REDACTION_PATTERN, text) for text in (*names, value))


def test_pattern_on_the_command_line_of_a_driver_is_short() -> None:
    assert len(REDACTION_PATTERN) < 600


@pytest.mark.parametrize("word", ABOUT_SECRETS)
def test_word_at_the_end_of_a_name_describes_a_secret(word: str) -> None:
    names = [f"my.token.{word}", f"MY_TOKEN_{word.upper()}", f"myToken{word.capitalize()}"]
    assert [name for name in names if is_secret_name(name)] == []
    assert is_secret_name(f"my.token.{word}.of")


@pytest.mark.parametrize("word", KEYS_OF_DATA)
def test_word_before_a_key_makes_it_a_key_of_data(word: str) -> None:
    assert not is_secret_name(f"{word}_KEY")
    assert is_secret_name(f"{word}X_KEY")


@pytest.mark.parametrize("term", HADOOP_TERMS + MORE_TERMS)
def test_name_of_a_secret_is_secret_in_each_notation(term: str) -> None:
    name = term.rstrip("$").replace(" ", ".")
    first, *others = name.split(".")
    camel_case = first + "".join(word.capitalize() for word in others)
    for notation in (
        f"my.{name}",
        f"MY_{name.replace('.', '_').upper()}",
        f"my-{camel_case}",
        f"my.{camel_case.lower()}",
    ):
        assert is_secret_name(notation), notation
