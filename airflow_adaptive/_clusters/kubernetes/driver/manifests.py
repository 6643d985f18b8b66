"""The objects of a driver: its pod, and the ConfigMap and the Secret that the pod owns. Pure, except for the call of `read_code`.

Secret values are in the Secret only: most of them as variables of the environment, and the file of the properties moves into the Secret if
spark-submit has to read a secret property itself.

The ConfigMap contains the code of the driver, which therefore starts without reading the job directory. The files lie beside each other, as in
the job directory, because the main program runs the script beside it. Executors get the files from the driver.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import driver_request, planned_executor
from airflow_adaptive._clusters.kubernetes.driver.pod import driver_pod
from airflow_adaptive._clusters.kubernetes.driver.pod_template import executor_template
from airflow_adaptive._clusters.kubernetes.driver.properties import (
    FOLDER,
    PROPERTIES_FILE,
    TEMPLATE_FILE,
    launch_properties,
    spark_properties,
    variables_of_template,
)
from airflow_adaptive._clusters.kubernetes.names import EXECUTOR_REQUEST, DriverIdentity, Json, to_annotation
from airflow_adaptive._clusters.properties import secret_properties, to_file
from airflow_adaptive._core.ports import DriverSubmission, SubmissionRefusedError
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE
from airflow_adaptive._core.protocol.secret_names import is_secret

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


@dataclass(frozen=True, slots=True)
class DriverManifests:
    """The objects of a driver.

    Attributes:
        identity: identity of the submission.
        pod: the pod.
        config: data of the ConfigMap.
        code: code in the ConfigMap.
        secret: data of the Secret.
    """

    identity: DriverIdentity
    pod: Json
    config: Mapping[str, str]
    secret: Mapping[str, str]
    code: MountedCode = NO_CODE

    def dependents(self, uid: str) -> Mapping[str, Json]:
        """Return the objects that the pod with this uid owns, by their collection. A driver without secrets has no Secret."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.identity.pod, "uid": uid}
        metadata = {
            "name": self.identity.pod,
            "labels": self.identity.labels,
            "annotations": self.identity.annotations,
            "ownerReferences": [owner],
        }
        common = {"apiVersion": "v1", "metadata": metadata}
        secret = {"secrets": {**common, "kind": "Secret", "type": "Opaque", "stringData": self.secret}}
        files = {key: b64encode(content).decode() for key, content in self.code.files.items()}
        config = {**common, "kind": "ConfigMap", "data": self.config, "binaryData": files}
        return {"configmaps": config, **(secret if self.secret else {})}


def driver_manifests(
    submission: DriverSubmission, address: KubernetesAddress, code: MountedCode = NO_CODE
) -> DriverManifests:
    """Return the objects of a driver. Raises `SubmissionRefusedError` for a missing size, or an invalid property or pod template."""
    given = spark_properties(submission, address)
    of_template = variables_of_template(given)
    properties = {name: value for name, value in given.items() if name not in of_template}
    variables = _secret_variables(submission, address, properties)
    names = address.secret_names
    read_at_launch = launch_properties(properties, names)
    files = {PROPERTIES_FILE: to_file(read_at_launch)}
    has_secrets = any(name in names or is_secret(name, value) for name, value in read_at_launch.items())
    secret = {**variables, **(files if has_secrets else {})}
    template = executor_template(
        submission.executor_template, properties, {variable: given[name] for name, variable in of_template.items()}
    )
    pod = driver_pod(submission, properties, _request(submission, properties), [*secret], code.paths)
    pod["metadata"]["annotations"][EXECUTOR_REQUEST] = _executor_request(submission, properties, template)
    return DriverManifests(
        identity=DriverIdentity(submission.name, submission.epoch, submission.nonce),
        pod=pod,
        config={TEMPLATE_FILE: json.dumps(template, sort_keys=True), **({} if has_secrets else files)},
        secret=secret,
        code=code,
    )


def _request(submission: DriverSubmission, properties: Mapping[str, str]) -> Any:
    try:
        return driver_request(properties, submission.driver_cores, submission.driver_memory_mb)
    except ValueError as error:
        raise SubmissionRefusedError(str(error)) from error


def _executor_request(submission: DriverSubmission, properties: Mapping[str, str], template: Json) -> str:
    try:
        planned = planned_executor(properties, submission.executor_cores, submission.executor_memory_mb, template)
    except ValueError as error:
        raise SubmissionRefusedError(str(error)) from error
    return to_annotation(planned)


def _secret_variables(
    submission: DriverSubmission, address: KubernetesAddress, properties: Mapping[str, str]
) -> dict[str, str]:
    """Return the secret variables of the driver's environment. A variable in `env` of the job takes precedence."""
    secret_env = {**address.secret_env, **submission.secret_env}
    variables = {name: value for name, value in secret_env.items() if name not in submission.env}
    secrets = secret_properties(properties, address.secret_names)
    return {
        **variables,
        **({SECRET_ENV_VARIABLE: json.dumps([*variables])} if variables else {}),
        **({SECRET_CONF_VARIABLE: json.dumps(secrets)} if secrets else {}),
    }
