"""The Spark properties by which a driver gets its settings, and the error that names missing ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_adaptive._core.protocol.conf import PREFIX, MissingSettingsError, read_settings

IDENTITY = {f"{PREFIX}job": "j", f"{PREFIX}directory": "file:///d", f"{PREFIX}epoch": "3", f"{PREFIX}nonce": "n"}


def test_settings_have_defaults():
    settings = read_settings(IDENTITY.get)
    assert (settings.job, settings.directory, settings.epoch, settings.nonce) == ("j", "file:///d", 3, "n")
    assert (settings.lease_timeout_s, settings.poll_interval_s, settings.heartbeat_interval_s) == (60.0, 0.5, 2.0)


def test_settings_are_read_in_seconds():
    properties = {
        "leaseTimeout": "20.5",
        "pollInterval": "0.25",
        "heartbeatInterval": "3",
        "stopTimeout": "5",
        "orphanTimeout": "7",
    }
    settings = read_settings({**IDENTITY, **{f"{PREFIX}{name}": value for name, value in properties.items()}}.get)
    assert (settings.lease_timeout_s, settings.poll_interval_s, settings.heartbeat_interval_s) == (20.5, 0.25, 3.0)
    assert (settings.stop_timeout_s, settings.orphan_timeout_s) == (5.0, 7.0)


def test_all_missing_properties_are_named_and_the_fix():
    conf = {**IDENTITY, f"{PREFIX}nonce": ""}
    del conf[f"{PREFIX}job"]
    with pytest.raises(
        MissingSettingsError, match=r"adaptive\.job, spark\.airflow\.adaptive\.nonce .*AdaptiveSparkOperator"
    ):
        read_settings(conf.get)


@pytest.mark.parametrize(
    ("name", "value"), [("leaseTimeout", "0"), ("pollInterval", "-1"), ("pollInterval", "60"), ("epoch", "x")]
)
def test_invalid_settings_are_rejected(name, value):
    with pytest.raises(ValueError, match="poll|lease|int"):
        read_settings({**IDENTITY, PREFIX + name: value}.get)


def test_documents_and_conf_need_no_pyspark():
    program = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None;"
        "import airflow_adaptive._core.protocol.documents, airflow_adaptive._core.protocol.conf"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
