"""The client and a real master, beyond the contract: a protected REST server, and secrets in `ps`."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_adaptive._clusters.standalone.address import ClusterAddress, parse_address
from airflow_adaptive._clusters.standalone.client import StandaloneCluster, connection_report
from airflow_adaptive._core.ports import (
    ClusterRefusedError,
    ClusterUnreachableError,
    DriverSubmission,
    SubmissionRefusedError,
    SubmissionState,
)
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until

TIMEOUT_S = 180.0

KEY = b"a key of 256 bits, as HS256 asks"

SECRET = "hush-hush-4711"

SCRIPT = """
import os, sys, threading
with open(sys.argv[1], "w") as out:
    out.write(os.environ[sys.argv[2]])
threading.Event().wait()
"""


def address(local: LocalCluster, token: str | None = None) -> ClusterAddress:
    ui_port, rest_port = (url.rpartition(":")[2] for url in (local.ui_url, local.rest_url))
    return parse_address(local.master_url, None, token, {"ui-port": ui_port, "rest-port": rest_port})


def jws(key: bytes, **claims: float) -> str:
    """A JSON Web Token signed with `key` (HS256)."""

    def encoded(part: bytes) -> bytes:
        return base64.urlsafe_b64encode(part).rstrip(b"=")

    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": "me", **claims})
    signed = b".".join(encoded(json.dumps(part).encode()) for part in parts)
    return b".".join((signed, encoded(hmac.digest(key, signed, hashlib.sha256)))).decode()


async def until_refused(cluster: StandaloneCluster) -> None:
    """Ask for the status of a driver until the master refuses."""
    for _ in range(int(TIMEOUT_S)):
        await cluster.status("driver-1")
        await asyncio.sleep(1)


KEY_FILTER = "org.apache.spark.ui.JWSFilter"

PROTECTED = {
    "spark.master.rest.filters": KEY_FILTER,
    f"spark.{KEY_FILTER}.param.secretKey": base64.urlsafe_b64encode(KEY).decode(),
}


@pytest.fixture(scope="module")
def protected() -> Iterator[LocalCluster]:
    with LocalCluster(properties=PROTECTED) as local:
        yield local


@pytest.mark.long
@pytest.mark.asyncio
async def test_token_that_expires_is_replaced_by_the_one_that_the_connection_has_by_then(
    protected: LocalCluster,
) -> None:
    expiring = address(protected, jws(KEY, exp=int(time.time()) + 5))

    async def renew() -> ClusterAddress:
        return address(protected, jws(KEY))

    forgetful, cluster = StandaloneCluster(expiring), StandaloneCluster(expiring, renew=renew)
    assert (await cluster.status("driver-1")).state is SubmissionState.UNKNOWN
    with pytest.raises(ClusterUnreachableError, match="bearer token"):
        await until_refused(forgetful)
    assert (await cluster.status("driver-1")).state is SubmissionState.UNKNOWN
    await forgetful.close()
    await cluster.close()


@pytest.mark.asyncio
async def test_protected_rest_server_requests_the_token(protected: LocalCluster) -> None:
    with_token = StandaloneCluster(address(protected, jws(KEY)))
    assert (await with_token.status("driver-1")).state is SubmissionState.UNKNOWN
    await with_token.close()
    for token in (None, jws(KEY[::-1])):
        without = StandaloneCluster(address(protected, token))
        with pytest.raises(ClusterUnreachableError, match="bearer token"):
            await without.status("driver-1")
        with pytest.raises(SubmissionRefusedError, match="bearer token"):
            await without.submit(SUBMISSION)
        await without.close()


SUBMISSION = DriverSubmission(name="departures", epoch=1, nonce="n", script="departures.py")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.master.rest.allowedAppResourcePatterns", "file:.*"), ("spark.master.rest.maxRequestBodySize", "1k")],
)
@pytest.mark.asyncio
async def test_setting_of_the_master_that_refuses_submissions_is_named_with_its_remedy(name: str, value: str) -> None:
    with LocalCluster(properties={name: value}) as local:
        cluster = StandaloneCluster(address(local))
        with pytest.raises(SubmissionRefusedError, match=name):
            await cluster.submit(SUBMISSION)
        await cluster.close()
        with pytest.raises(ClusterRefusedError, match=rf"^Spark \d.* 0 workers, 0 of 0 slots are free\. .*{name}"):
            await connection_report(address(local))


@pytest.mark.long
@pytest.mark.asyncio
async def test_settings_of_the_master_that_accept_submissions_pass() -> None:
    accepted = {
        "spark.master.rest.allowedAppResourcePatterns": "file:.*,()",
        "spark.master.rest.maxRequestBodySize": "1m",
    }
    with LocalCluster(properties=accepted) as local:
        assert "REST submission is enabled" in await connection_report(address(local))
        cluster = StandaloneCluster(address(local))
        assert (await cluster.snapshot()).drivers == {}, "the report starts no driver"
        assert await cluster.submit(SUBMISSION)
        await cluster.close()


@pytest.mark.asyncio
async def test_secret_properties_reach_the_driver_but_no_command_line(
    spark_cluster: LocalCluster, tmp_path: Path
) -> None:
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT)
    spark_cluster.add_worker(cores=1, memory_mb=512)
    cluster = StandaloneCluster(address(spark_cluster))
    await cluster.submit(
        DriverSubmission(
            name="departures",
            epoch=1,
            nonce="n",
            script=str(script),
            args=(str(out), SECRET_CONF_VARIABLE),
            conf={"spark.db.password": SECRET},
            driver_memory_mb=512,
        )
    )
    await cluster.close()
    wait_until(lambda: out.exists() and SECRET in out.read_text(), TIMEOUT_S, "the script's output")
    assert json.loads(out.read_text()) == {"spark.db.password": SECRET}
    command_lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert any(str(script) in line for line in command_lines)
    assert not any(SECRET in line for line in command_lines)
    logs = [file for file in spark_cluster.directory.rglob("*") if file.is_file() and file.suffix in {"", ".log"}]
    assert not any(SECRET in file.read_text(errors="replace") for file in logs)
