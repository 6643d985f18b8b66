"""The code of a driver in its ConfigMap, so that the driver starts without reading the job directory. Pure, except for the call of `read_code`.

The files lie beside each other, as in the job directory, because the main program runs the script beside it. Executors get the files from the
driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_adaptive._clusters.kubernetes.driver.properties import FOLDER
from airflow_adaptive._core.ports import DriverSubmission

MOST_BYTES: Final = 900_000
"""Largest code in a ConfigMap. Kubernetes allows 1 MiB, and the ConfigMap contains the properties and the template, too."""


@dataclass(frozen=True, slots=True)
class MountedCode:
    """Code in the ConfigMap of a driver.

    Attributes:
        files: key of the ConfigMap -> content.
        paths: key of the ConfigMap -> path in the folder of the driver's files. Keys cannot have all names that files have.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)


NO_CODE: Final = MountedCode()


async def mount_code(submission: DriverSubmission) -> tuple[DriverSubmission, MountedCode]:
    """Return the submission of a driver that reads its code from the ConfigMap, and the code.

    A driver whose code is too large, or cannot be read now, loads the code from the job directory.
    """
    contents = await submission.read_code(MOST_BYTES)
    if not contents:
        return submission, NO_CODE
    paths = {uri: f"code/{uri.rpartition('/')[2]}" for uri in contents}
    keys = {uri: f"code-{number}" for number, uri in enumerate(contents)}
    mounted = replace(
        submission,
        script=_uri(paths, submission.script),
        py_files=tuple(_uri(paths, uri) for uri in submission.py_files),
    )
    return mounted, MountedCode(
        files={keys[uri]: content for uri, content in contents.items()},
        paths={keys[uri]: path for uri, path in paths.items()},
    )


def _uri(paths: Mapping[str, str], uri: str) -> str:
    return f"file://{FOLDER}/{paths[uri]}" if uri in paths else uri
