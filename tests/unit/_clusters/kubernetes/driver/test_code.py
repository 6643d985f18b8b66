"""The code of a driver in its ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_adaptive._clusters.kubernetes.driver.code import MOST_BYTES, NO_CODE, mount_code
from airflow_adaptive._core.ports import DriverSubmission

FOLDER = "s3a://jobs/departures/code/0a"
REMOTE = "https://example.com/code/other.zip"


def submission(contents: Mapping[str, bytes]) -> DriverSubmission:
    async def read_code(most_bytes: int) -> Mapping[str, bytes]:
        assert most_bytes == MOST_BYTES
        return contents

    py_files = (f"{FOLDER}/airflow_adaptive.zip", f"{FOLDER}/my script.py", REMOTE)
    return DriverSubmission(
        name="departures", epoch=1, nonce="n", script=f"{FOLDER}/run.py", py_files=py_files, read_code=read_code
    )


@pytest.mark.asyncio
async def test_the_code_lies_beside_the_main_program() -> None:
    contents = {f"{FOLDER}/{name}": name.encode() for name in ("run.py", "airflow_adaptive.zip", "my script.py")}
    mounted, code = await mount_code(submission(contents))
    assert mounted.script == "file:///etc/airflow-adaptive/code/run.py"
    assert mounted.py_files == (
        "file:///etc/airflow-adaptive/code/airflow_adaptive.zip",
        "file:///etc/airflow-adaptive/code/my script.py",
        REMOTE,
    )
    assert code.files == {"code-0": b"run.py", "code-1": b"airflow_adaptive.zip", "code-2": b"my script.py"}
    assert code.paths == {"code-0": "code/run.py", "code-1": "code/airflow_adaptive.zip", "code-2": "code/my script.py"}


@pytest.mark.asyncio
async def test_a_driver_without_readable_code_loads_the_code_from_the_job_directory() -> None:
    unchanged = submission({})
    assert await mount_code(unchanged) == (unchanged, NO_CODE)
