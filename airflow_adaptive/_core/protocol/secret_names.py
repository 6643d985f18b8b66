"""Names and values that are secret, recognized by one list of terms.

A term is a sequence of words. A name contains the term in any notation: `access.key`, `ACCESS_KEY`, `accessKey`, `accesskey`. A term ends
where its last word ends, so `MAX_TOKENS` and `TOKENIZERS_PARALLELISM` do not contain the term `token`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

AIRFLOW_TERMS: Final = (
    *("access key", "access token", "api key", "auth header", "authorization$", "bearer", "connection string", "dsn"),
    *(
        "keyfile dict",
        "passphrase",
        "passwd",
        "password",
        "private key",
        "secret",
        "service key",
        "token",
        "webhook url",
    ),
)
"""`DEFAULT_SENSITIVE_FIELDS` of Airflow's secrets masker (Airflow 3.3).

The list omits `proxy`, `proxies` and `service_account`, because the names of Spark's properties contain these words for addresses and
switches (`fs.s3a.proxy.host`, `google.cloud.auth.service.account.enable`). `authorization` must be the last word, as of a header.
"""

SPARK_TERMS: Final = ("secret", "password", "token", "access key", "credential")
"""Default of the property `spark.redaction.regex` (Spark 4.3)."""

HADOOP_TERMS: Final = ("account key", "encryption key", "keystore pass", "session key")
"""Hadoop's `hadoop.security.sensitive-config-keys` (Hadoop 3.4). The terms of Airflow and Spark contain the other keys."""

MORE_TERMS: Final = (
    *("db pass$", "db pwd", "fernet key", "pg pass$", "pw$"),
    *(
        "credentials$",
        "jaas config",
        "master key",
        "pass$",
        "passcode",
        "pwd",
        "sas",
        "secret key",
        "shared key",
        "signing key",
    ),
    *("redis auth$", "ssh key", "storage key", "truststore pass", "user info"),
)
"""Kafka's `sasl.jaas.config`, `DB_PASS`, `PGPASS`, `MYSQL_PWD` and similar variables, shared access signatures of Azure (`fs.azure.sas.*`), keys that
are written as one word (`secretkey`), and Confluent's `basic.auth.user.info`, and `spark.redis.auth`."""

KEYS_OF_DATA: Final = (
    *("BUSINESS", "CACHE", "CLUSTER", "CLUSTERING", "COMPOSITE", "COMPOUND", "DEDUP", "DIST", "DISTRIBUTION", "EVENT"),
    *(
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
    ),
    *(
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
    ),
    *("S3", "SEARCH", "SHARD", "SORT", "SURROGATE", "UNIQUE"),
)
"""Words before `_KEY` in the names of keys of data: of tables (SQL, Cassandra, DynamoDB, Redshift, HBase), of documents (MongoDB, Elasticsearch),
of messages (Kafka, RabbitMQ) and of objects (S3). Public keys and the identifiers of AWS KMS are not secret either."""

ABOUT_SECRETS: Final = (
    *(
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
    ),
    *("mechanism", "name", "parallelism", "path", "provider", "size", "timeout", "ttl", "type"),
)
"""Words at the end of names that describe a secret and do not contain the secret, as in `oauth.token.endpoint`."""

FLAGS: Final = ("", "true", "false", "yes", "no", "on", "off", "none")
"""Values that are not secret, whatever their name."""

NOT_SECRET: Final = ("GOOGLE_APPLICATION_CREDENTIALS", "PWD")
"""Variables that contain the path of a file and the working directory of a process."""

SHORT: Final = 4
"""Terms of at most this number of letters must be words of their own: `MYSQL_PWD` is secret, `OLDPWD` is not."""


def _in_any_case(word: str) -> str:
    return f"[{word[0]}{word[0].upper()}]{word[1:]}"


def _term_pattern(term: str) -> str:
    words = term.rstrip("$").split()
    plural = "" if term in ("token", "credential") else "s?"
    end = r"(?![\w.-])" if term.endswith("$") else ""
    mixed, upper = "[ ._-]?".join(map(_in_any_case, words)), "[ ._-]?".join(map(str.upper, words))
    if len(words[0]) <= SHORT and len(words) == 1:
        mixed = rf"(?:(?<![A-Za-z]){mixed}|(?<=[a-z]){words[0].capitalize()})"
        upper = rf"(?<![A-Za-z]){upper}"
    return rf"{mixed}{plural}(?![a-z]){end}|{upper}{plural.upper()}(?![A-Z]){end}"


VENDOR_KEYS: Final = (
    rf"(?<=[A-Z0-9])_AUTH(?![\w.-])|(?<=[A-Z0-9]){''.join(f'(?<!{word})' for word in KEYS_OF_DATA)}_KEYS?(?![\w.-])"
)
"""Pattern of variables such as `NPM_AUTH` and `OPENAI_KEY`: `auth` and `key` are terms of the rule `generic-api-key` of gitleaks 8. In other
notations, for example in `auth=kerberos` and `join.key`, the words are too common."""

TERMS: Final = "|".join(
    (*map(_term_pattern, dict.fromkeys(AIRFLOW_TERMS + SPARK_TERMS + HADOOP_TERMS + MORE_TERMS)), VENDOR_KEYS)
)
"""Pattern of the terms in a text."""

_AFTER_SEPARATOR: Final = "|".join(f"{_in_any_case(word)}|{word.upper()}" for word in ABOUT_SECRETS)
_IN_CAMEL_CASE: Final = "|".join(map(str.capitalize, ABOUT_SECRETS))

SECRET_NAME_PATTERN: Final = (
    rf"^(?!(?:{'|'.join(NOT_SECRET)})$|.*(?:[._-](?:{_AFTER_SEPARATOR})|[a-z](?:{_IN_CAMEL_CASE}))$).*(?:{TERMS})"
)
"""Pattern of names of secrets."""

URL_PASSWORD: Final = r"""(?:[^/\s@]+|(?!\d{1,5}[^\w@])[^/\s@"',][^\s@"']{0,200})(?=@)"""
"""Pattern of a password in a URL. A password with a slash must not begin like a port, must not contain a quotation mark, and must be short, so
that the time is linear."""

_URL_CREDENTIALS_PATTERN: Final = rf"(?:https?://(?=[^/\s:@]+@)|://[^/\s:@\[]*:)({URL_PASSWORD})@"
"""Pattern of a user name and a password in a URL, or of a token in place of both in a web address. The group is the password or token."""

_URL_OR_PRIVATE_KEY: Final = rf"{_URL_CREDENTIALS_PATTERN}|-----BEGIN [A-Z ]{{0,30}}PRIVATE KEY"

SECRET_VALUE_PATTERN: Final = rf"{_URL_OR_PRIVATE_KEY}|(?<![\w-])ey[\w-]{{17,}}\.ey[\w-]{{17,}}\."
"""Pattern of values that are secret whatever their name: credentials in a URL, a private key (PEM), and a JSON Web Token (the rules `private-key` and
`jwt` of gitleaks 8)."""

REDACTION_PATTERN: Final = (
    r"(?i)secret|passw|passphrase|passcode|token|credential|bearer|auth.?header|authorization|jaas|dsn|user.?info|webhook.?url|connection.?string|keyfile|"
    r"(access|account|api|encryption|fernet|master|private|service|session|shared|signing|ssh|storage).?key|store.?pass|"
    r"[._-]sas\b|(db|pg|[._-])(pass|pwd?|auth|keys?)$|"
    rf"{_URL_OR_PRIVATE_KEY}|\bey[\w-]{{17,}}\.ey"
)
"""Short pattern of secret names and values, for `spark.redaction.regex`: it is on the command line of each driver. A name too many is only hidden on
Spark's pages, so that the pattern needs no exceptions; `is_secret` has them, because it refuses declarations."""

_SECRET_NAME: Final = re.compile(SECRET_NAME_PATTERN)
_SECRET_VALUE: Final = re.compile(SECRET_VALUE_PATTERN)
_URL_CREDENTIALS: Final = re.compile(_URL_CREDENTIALS_PATTERN)
# The look-behind starts a name at its first character only, so that the time is linear in the length of a word.
_ASSIGNMENT: Final = re.compile(r"""(?<![\w.-])([\w.-]+)(?:=|["']\s*:\s*)["']?([^\s"'&;,}]*)""")


def is_secret_name(name: str) -> bool:
    """Return whether a property, an environment variable or an option has the name of a secret."""
    return _SECRET_NAME.search(name) is not None


def url_passwords(value: str) -> list[str]:
    """Return the passwords in the URLs of a value."""
    return _URL_CREDENTIALS.findall(value)


def is_secret(name: str, value: str) -> bool:
    """Return whether the value of a property, an option or an environment variable is secret, or contains a secret.

    The name decides, or the value: credentials in a URL, a key, or an assignment as in `-Djavax.net.ssl.trustStorePassword=...`.
    """
    if value.strip().lower() in FLAGS:
        return False
    return is_secret_name(name) or _SECRET_VALUE.search(value) is not None or any(secret_assignments(value))


def secret_parts(value: str) -> tuple[str, ...]:
    """Return a secret value, and the passwords and the assigned secrets in it, which may appear without the rest of the value."""
    return (value, *url_passwords(value), *(secret for _, secret in _secret_assignments(value)))


def secret_assignments(text: str) -> Iterator[str]:
    """Return the names of the secrets that a text assigns, as in `--password=...`, `jdbc:...&password=...` and `{"token": "..."}`."""
    return (name for name, _ in _secret_assignments(text))


def _secret_assignments(text: str) -> Iterator[tuple[str, str]]:
    assignments = _ASSIGNMENT.findall(text)
    return ((name, value) for name, value in assignments if is_secret_name(name) and value.lower() not in FLAGS)
