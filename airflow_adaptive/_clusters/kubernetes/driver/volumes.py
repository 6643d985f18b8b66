"""The volumes of a driver in Spark's properties (`spark.kubernetes.driver.volumes.*`). Pure. Spark itself mounts the volumes of executors.

Source in Spark: `KubernetesVolumeUtils`, `MountVolumesFeatureStep`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from airflow_adaptive._core.ports import SubmissionRefusedError

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
    """Return the volumes and the volume mounts that Spark properties describe.

    Raises:
        SubmissionRefusedError: a property does not describe a volume.
    """
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
