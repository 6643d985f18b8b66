"""The objects of a driver: its pod, and the ConfigMap and the Secret that the pod owns. Pure, except for the call of `read_code`.

Secret values are in the Secret only: most of them as variables of the environment, and the file of the properties moves into the Secret if
spark-submit has to read a secret property itself.

The ConfigMap contains the code of the driver, which therefore starts without reading the job directory. The files lie beside each other, as in
the job directory, because the main program runs the script beside it. Executors get the files from the driver.

The arguments follow the entry point of Spark's image (`driver ...`), so any image of Spark works. No Service is needed: executors reach the
driver at the address of the pod.

Source in Spark: `KubernetesVolumeUtils`, `MountVolumesFeatureStep`.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import (
    driver_request,
    node_selector,
    planned_executor,
    spark_resources,
)
from airflow_adaptive._clusters.kubernetes.driver.properties import (
    FOLDER,
    PROPERTIES_FILE,
    RESTART_POLICY,
    TEMPLATE_FILE,
    executor_template,
    launch_properties,
    literal,
    merged_env,
    read_template,
    spark_container,
    spark_properties,
    variables_of_template,
)
from airflow_adaptive._clusters.kubernetes.driver.status import CONTAINER
from airflow_adaptive._clusters.kubernetes.names import (
    APPLICATION,
    EXECUTOR_REQUEST,
    JOB,
    ROLE,
    DriverIdentity,
    Json,
    to_annotation,
)
from airflow_adaptive._clusters.properties import secret_properties, to_file
from airflow_adaptive._core.ports import DriverSubmission, Resources, SubmissionRefusedError
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE, SUBMISSION_ID_VARIABLE
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


ADDRESS_VARIABLE: Final = "SPARK_DRIVER_BIND_ADDRESS"
"""The entry point of Spark's image requires this variable."""

NAME_VARIABLE: Final = "AIRFLOW_ADAPTIVE_POD_NAME"
UID_VARIABLE: Final = "AIRFLOW_ADAPTIVE_POD_UID"
"""Names that jobs do not use: `env_vars` and pod templates often have a variable POD_NAME."""

FILES: Final = "airflow-adaptive-files"
LOCAL: Final = "airflow-adaptive-local"
LOCAL_FOLDER: Final = "/var/data/airflow-adaptive"

USER_VOLUMES: Final = "spark-local-dir-"
"""Volumes of the user with this prefix replace the driver's local folder, as in Spark."""


def driver_pod(
    submission: DriverSubmission,
    properties: Mapping[str, str],
    request: Resources,
    secret_keys: Sequence[str],
    code_paths: Mapping[str, str],
) -> Json:
    """Return the pod of a driver. Raises `SubmissionRefusedError` for an invalid property or pod template.

    Args:
        submission: the driver.
        properties: all Spark properties of the driver.
        request: CPU and memory of the driver's container.
        secret_keys: keys of the Secret of the driver: variables of its environment, and possibly the file of the properties.
        code_paths: key of the ConfigMap of the driver -> path of this code in `FOLDER`.
    """
    identity = DriverIdentity(submission.name, submission.epoch, submission.nonce)
    template = read_template(submission.driver_template)
    given = template.get("spec") or {}
    secret_names = [key for key in secret_keys if key != PROPERTIES_FILE]
    own, others = spark_container("driver", template, properties)
    volumes, mounts = driver_volumes(properties)
    local = [mount["mountPath"] for mount in mounts if mount["name"].startswith(USER_VOLUMES)]
    if not local:
        volumes, mounts = (
            [*volumes, {"name": LOCAL, "emptyDir": {}}],
            [*mounts, {"name": LOCAL, "mountPath": LOCAL_FOLDER}],
        )
    container = {
        **own,
        "name": CONTAINER,
        **_image(properties, own),
        "args": _arguments(submission),
        "env": merged_env(own.get("env") or (), _env(submission, identity, local or [LOCAL_FOLDER], secret_names)),
        "resources": spark_resources(properties, "driver", request, own.get("resources") or {}),
        "volumeMounts": [
            *(own.get("volumeMounts") or ()),
            *mounts,
            {"name": FILES, "mountPath": FOLDER, "readOnly": True},
        ],
    }
    spec = {
        **given,
        **_placement(properties, given),
        **({"affinity": _standby_affinity(given, identity)} if submission.is_standby else {}),
        "restartPolicy": RESTART_POLICY,
        "containers": [container, *others],
        "volumes": [*(given.get("volumes") or ()), *volumes, _files(identity, secret_keys, code_paths)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(identity, properties, template), "spec": spec}


def _metadata(identity: DriverIdentity, properties: Mapping[str, str], template: Json) -> Json:
    given = template.get("metadata") or {}
    return {
        "name": identity.pod,
        "labels": {
            **(given.get("labels") or {}),
            **_with_prefix(properties, "spark.kubernetes.driver.label."),
            **identity.labels,
            ROLE: "driver",
            APPLICATION: identity.pod,
        },
        "annotations": {
            **(given.get("annotations") or {}),
            **_with_prefix(properties, "spark.kubernetes.driver.annotation."),
            **identity.annotations,
        },
    }


def _arguments(submission: DriverSubmission) -> list[str]:
    return [
        "driver",
        "--properties-file",
        f"{FOLDER}/{PROPERTIES_FILE}",
        "--conf",
        f"spark.driver.host=$({ADDRESS_VARIABLE})",
        "--class",
        "org.apache.spark.deploy.PythonRunner",
        *(literal(text) for text in (submission.script, *submission.args)),
    ]


def _env(
    submission: DriverSubmission, identity: DriverIdentity, local: Sequence[str], secret_names: Sequence[str]
) -> list[Json]:
    fields = {NAME_VARIABLE: "metadata.name", UID_VARIABLE: "metadata.uid", ADDRESS_VARIABLE: "status.podIP"}
    return [
        *({"name": name, "value": literal(value)} for name, value in submission.env.items()),
        {"name": "SPARK_LOCAL_DIRS", "value": literal(",".join(local))},
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": SUBMISSION_ID_VARIABLE, "value": f"$({NAME_VARIABLE})@$({UID_VARIABLE})"},
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": identity.pod, "key": name}}}
            for name in secret_names
        ),
    ]  # fmt: skip


def _image(properties: Mapping[str, str], own: Json) -> dict[str, str]:
    names = ("spark.kubernetes.driver.container.image", "spark.kubernetes.container.image")
    image = next((properties[name] for name in names if properties.get(name)), own.get("image"))
    if not image:
        raise SubmissionRefusedError(
            "the image is missing: set the parameter `image`, or spark.kubernetes.container.image in `conf`"
        )
    policy = properties.get("spark.kubernetes.container.image.pullPolicy")
    return {"image": image} | ({"imagePullPolicy": policy} if policy else {})


def _placement(properties: Mapping[str, str], given: Json) -> dict[str, Any]:
    selector = {**(given.get("nodeSelector") or {}), **node_selector(properties, "driver")}
    account = properties.get("spark.kubernetes.authenticate.driver.serviceAccountName")
    scheduler = properties.get("spark.kubernetes.scheduler.name")
    fields = {"nodeSelector": selector, "serviceAccountName": account, "schedulerName": scheduler}
    return {name: value for name, value in fields.items() if value}


def _standby_affinity(given: Json, identity: DriverIdentity) -> Json:
    """Return the affinity of a standby, which prefers another node than that of the driver: otherwise both would end with the node."""
    affinity, preferred = given.get("affinity") or {}, "preferredDuringSchedulingIgnoredDuringExecution"
    others = affinity.get("podAntiAffinity") or {}
    drivers = {"matchLabels": {JOB: identity.labels[JOB], ROLE: "driver"}}
    term = {"weight": 100, "podAffinityTerm": {"labelSelector": drivers, "topologyKey": "kubernetes.io/hostname"}}
    return {**affinity, "podAntiAffinity": {**others, preferred: [*(others.get(preferred) or ()), term]}}


def _files(identity: DriverIdentity, secret_keys: Sequence[str], code_paths: Mapping[str, str]) -> Json:
    """Return the volume of the driver's files. The pod waits until the ConfigMap and the Secret exist, so no partial driver starts."""
    has_secret_file = PROPERTIES_FILE in secret_keys
    config = {name: name for name in (TEMPLATE_FILE, *(() if has_secret_file else (PROPERTIES_FILE,)))}
    sources: list[Json] = [{"configMap": _projection(identity, {**config, **code_paths})}]
    if has_secret_file:
        sources.append({"secret": _projection(identity, {PROPERTIES_FILE: PROPERTIES_FILE})})
    return {"name": FILES, "projected": {"sources": sources}}


def _projection(identity: DriverIdentity, paths: Mapping[str, str]) -> Json:
    return {"name": identity.pod, "items": [{"key": key, "path": path} for key, path in paths.items()]}


def _with_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


PREFIX: Final = "spark.kubernetes.driver.volumes."

Fields = Mapping[str, str]

_PROPERTY: Final = re.compile(r"(?P<kind>[^.]+)\.(?P<name>[^.]+)\.(?P<field>.+)")

_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "hostPath": {"path": "path", "type": "type"},
    "persistentVolumeClaim": {"claimName": "claimName"},
    "emptyDir": {"medium": "medium", "sizeLimit": "sizeLimit"},
    "nfs": {"server": "server", "path": "path"},
}
"""Type of a volume -> its options in Spark's properties -> fields of Kubernetes."""

_REQUIRED: Final = {"hostPath": ("path",), "persistentVolumeClaim": ("claimName",), "nfs": ("server", "path")}

_MOUNT_FIELDS: Final = {"mount.path": "mountPath", "mount.subPath": "subPath", "mount.subPathExpr": "subPathExpr"}


def driver_volumes(conf: Mapping[str, str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volumes and the volume mounts that Spark properties describe. Raises `SubmissionRefusedError`."""
    volumes: dict[tuple[str, str], dict[str, str]] = {}
    for name, value in conf.items():
        if name.startswith(PREFIX):
            kind, volume, field = _parts(name)
            volumes.setdefault((kind, volume), {})[field] = value
    found = [(_volume(kind, name, fields), _mount(kind, name, fields)) for (kind, name), fields in volumes.items()]
    return [volume for volume, _ in found], [mount for _, mount in found]


def _parts(name: str) -> tuple[str, str, str]:
    matched = _PROPERTY.fullmatch(name.removeprefix(PREFIX))
    if matched is None or matched["kind"] not in _OPTIONS:
        raise SubmissionRefusedError(f"{name} names no volume: use {PREFIX}[{'|'.join(_OPTIONS)}].[name].mount.path")
    return matched["kind"], matched["name"], matched["field"]


def _volume(kind: str, name: str, fields: Fields) -> dict[str, Any]:
    options = {
        target: fields[f"options.{option}"]
        for option, target in _OPTIONS[kind].items()
        if f"options.{option}" in fields
    }
    missing = [option for option in _REQUIRED.get(kind, ()) if option not in options]
    if missing:
        raise SubmissionRefusedError(f"{PREFIX}{kind}.{name}.options.{missing[0]} is missing")
    if options.get("claimName") == "OnDemand":
        raise SubmissionRefusedError(
            f"{PREFIX}{kind}.{name}.options.claimName OnDemand has no effect for a driver: name a PersistentVolumeClaim that exists"
        )
    return {"name": name, kind: options}


def _mount(kind: str, name: str, fields: Fields) -> dict[str, Any]:
    if "mount.path" not in fields:
        raise SubmissionRefusedError(f"{PREFIX}{kind}.{name}.mount.path is missing")
    mount: dict[str, Any] = {target: fields[field] for field, target in _MOUNT_FIELDS.items() if field in fields}
    return {"name": name, **mount, "readOnly": fields.get("mount.readOnly", "false").lower() == "true"}
