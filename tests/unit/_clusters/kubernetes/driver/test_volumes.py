"""A driver mounts the volumes that Spark's properties describe."""

from __future__ import annotations

import pytest

from airflow_adaptive._clusters.kubernetes.driver.manifests import driver_volumes
from airflow_adaptive._core.ports import SubmissionRefusedError

PREFIX = "spark.kubernetes.driver.volumes."


def conf(kind: str, **fields: str) -> dict[str, str]:
    return {f"{PREFIX}{kind}.data.{name.replace('_', '.')}": value for name, value in fields.items()}


@pytest.mark.parametrize(
    ("kind", "options", "volume"),
    [
        ("hostPath", {"options_path": "/d", "options_type": "Directory"}, {"path": "/d", "type": "Directory"}),
        ("persistentVolumeClaim", {"options_claimName": "jobs"}, {"claimName": "jobs"}),
        (
            "emptyDir",
            {"options_medium": "Memory", "options_sizeLimit": "1Gi"},
            {"medium": "Memory", "sizeLimit": "1Gi"},
        ),
        ("emptyDir", {}, {}),
        ("nfs", {"options_server": "nas", "options_path": "/d"}, {"server": "nas", "path": "/d"}),
    ],
)
def test_each_type_of_a_volume(kind: str, options: dict[str, str], volume: dict[str, str]):
    volumes, mounts = driver_volumes(conf(kind, mount_path="/data", **options))
    assert volumes == [{"name": "data", kind: volume}]
    assert mounts == [{"name": "data", "mountPath": "/data", "readOnly": False}]


def test_options_of_the_mount():
    fields = {"mount_path": "/data", "mount_subPath": "a", "mount_readOnly": "true"}
    _, mounts = driver_volumes(conf("emptyDir", **fields))
    assert mounts == [{"name": "data", "mountPath": "/data", "subPath": "a", "readOnly": True}]


def test_volumes_of_executors_are_for_spark():
    assert driver_volumes({"spark.kubernetes.executor.volumes.emptyDir.a.mount.path": "/a"}) == ([], [])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (conf("hostPath", mount_path="/data"), "hostPath.data.options.path is missing"),
        (conf("nfs", mount_path="/data", options_server="nas"), "nfs.data.options.path is missing"),
        (conf("emptyDir", mount_subPath="a"), "emptyDir.data.mount.path is missing"),
        (conf("glusterfs", mount_path="/data"), "names no volume"),
        ({f"{PREFIX}hostPath": "/data"}, "names no volume"),
        (conf("persistentVolumeClaim", mount_path="/d", options_claimName="OnDemand"), "OnDemand has no effect"),
    ],
)
def test_properties_that_describe_no_volume(wrong: dict[str, str], message: str):
    with pytest.raises(SubmissionRefusedError, match=message):
        driver_volumes(wrong)
