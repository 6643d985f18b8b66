"""The objects of a driver, its secrets, and its code in the ConfigMap."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.driver.manifests import (
    MOST_BYTES,
    NO_CODE,
    DriverManifests,
    MountedCode,
    driver_manifests,
    mount_code,
)
from airflow_adaptive._clusters.kubernetes.names import DriverIdentity
from airflow_adaptive._core.ports import DriverSubmission, SubmissionRefusedError
from airflow_adaptive._core.protocol.conf import STANDBY_EXECUTORS
from airflow_adaptive._core.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE

NAME = DriverIdentity("departures", 2, "n").pod
IMAGE = {"spark.kubernetes.container.image": "spark:4"}


def manifests(
    conf: dict[str, str] | None = None, template: dict[str, Any] | None = None, **parts: Any
) -> DriverManifests:
    options = {name: parts.pop(name) for name in ("secret_env", "address_conf", "secret_names") if name in parts}
    address = KubernetesAddress(
        server="https://api",
        conf=options.get("address_conf", {}),
        secret_names=frozenset(options.get("secret_names", ())),
        secret_env=options.get("secret_env", {}),
    )
    submission = DriverSubmission(
        name="departures",
        epoch=2,
        nonce="n",
        script="/jobs/run.py",
        conf={**IMAGE, **(conf or {})},
        driver_template=json.dumps(template or {}),
        **parts,
    )
    return driver_manifests(submission, address)


def container(created: DriverManifests) -> dict[str, Any]:
    first: dict[str, Any] = created.pod["spec"]["containers"][0]
    return first


def env(created: DriverManifests) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(created)["env"]}


def test_the_arguments_follow_the_entry_point_of_the_image():
    assert container(manifests(args=["$(HOME)", "b"]))["args"] == [
        "driver",
        "--properties-file",
        "/etc/airflow-adaptive/spark.properties",
        "--conf",
        "spark.driver.host=$(SPARK_DRIVER_BIND_ADDRESS)",
        "--class",
        "org.apache.spark.deploy.PythonRunner",
        "/jobs/run.py",
        "$$(HOME)",
        "b",
    ]  # fmt: skip


def test_the_driver_knows_its_submission_id():
    variables = env(manifests())
    name, uid = "AIRFLOW_ADAPTIVE_POD_NAME", "AIRFLOW_ADAPTIVE_POD_UID"
    assert variables["AIRFLOW_ADAPTIVE_SUBMISSION_ID"] == f"$({name})@$({uid})"
    assert variables[uid] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert variables["SPARK_DRIVER_BIND_ADDRESS"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_a_job_may_have_variables_for_the_name_and_the_uid_of_a_pod():
    """Examples of the downward API use these names."""
    variables = env(manifests(env={"POD_NAME": "a", "POD_UID": "b"}))
    assert (variables["POD_NAME"], variables["POD_UID"]) == ("a", "b")


TEXTS = ("pa$$word", "$$(POD_NAME)", "$(POD_NAME)", "$(A)$(A) $(B)", "$", "$$$", "x$(", "${ENV}", "^x$$", "a b", "")


def expanded(text: str) -> str:
    """Return what a container gets for a text, if every variable has the value `!` (`expand.go` of Kubernetes)."""
    return re.sub(r"\$(\$|\([^)]*\))", lambda found: "$" if found[1] == "$" else "!", text)


@pytest.mark.parametrize("text", TEXTS)
def test_arguments_and_variables_reach_the_driver_byte_for_byte(text):
    created = manifests(args=[text], env={"A": text})
    assert expanded(container(created)["args"][-1]) == text
    assert expanded(env(created)["A"]) == text


@pytest.mark.parametrize("text", TEXTS)
def test_variables_and_options_reach_the_executors_byte_for_byte(text):
    conf = {"spark.executorEnv.A": text, "spark.executor.extraJavaOptions": f"-Da={text}"}
    created = manifests(conf, executor_template=json.dumps({"spec": {"containers": [{"env": [{"name": "A"}]}]}}))
    [executor] = json.loads(created.config["executor-pod.json"])["spec"]["containers"]
    in_template = {each["name"]: each.get("value") for each in executor["env"]}
    properties = created.config["spark.properties"]
    if "$" in text:  # Spark would pass the property to Python as it is, and to Kubernetes.
        assert expanded(in_template["A"]) == text
        assert "spark.executorEnv" not in properties
    else:
        assert f"spark.executorEnv.A={text}\n" in properties
    [options] = [line for line in properties.splitlines() if line.startswith("spark.executor.extraJavaOptions=")]
    assert expanded(options) == f"spark.executor.extraJavaOptions=-Da={text}"


def test_spark_ignores_variables_of_executors_with_invalid_names():
    created = manifests({"spark.executorEnv.1": "$(A)"})
    assert "spark.executorEnv.1=$(A)\n" in created.config["spark.properties"]


def test_the_folders_of_the_driver_are_not_expanded():
    volume = "spark.kubernetes.driver.volumes.emptyDir.spark-local-dir-1.mount"
    created = manifests({f"{volume}.path": "/a$(b)", f"{volume}.readOnly": "false"})
    assert env(created)["SPARK_LOCAL_DIRS"] == "/a$$(b)"


def test_the_pod_is_never_restarted_and_identifies_the_driver():
    created = manifests({"spark.kubernetes.driver.label.team": "a", "spark.kubernetes.driver.annotation.note": "b"})
    metadata = created.pod["metadata"]
    assert created.pod["spec"]["restartPolicy"] == "Never"
    assert metadata["name"] == NAME
    assert metadata["labels"] == {
        "team": "a",
        "airflow-adaptive/job": "departures",
        "airflow-adaptive/epoch": "2",
        "app.kubernetes.io/managed-by": "airflow-adaptive",
        "spark-role": "driver",
        "spark-app-selector": NAME,
    }
    assert metadata["annotations"] == {
        "note": "b",
        "airflow-adaptive/job": "departures",
        "airflow-adaptive/nonce": "n",
        "airflow-adaptive/executor-request": "[1000, 1502609408]",
    }


def test_the_container_has_the_size_that_spark_computes():
    conf = {"spark.driver.memoryOverhead": "100m", "spark.kubernetes.driver.limit.cores": "2"}
    size = container(manifests(conf, driver_cores=1, driver_memory_mb=500))["resources"]
    memory = str(600 << 20)
    assert size == {"requests": {"cpu": "1000m", "memory": memory}, "limits": {"memory": memory, "cpu": "2"}}


def test_the_size_is_always_valid():
    with pytest.raises(SubmissionRefusedError, match="driver of 'departures' with 0 cores"):
        manifests(driver_cores=0)
    with pytest.raises(SubmissionRefusedError, match="and 0 MiB"):
        manifests(driver_memory_mb=0)
    with pytest.raises(SubmissionRefusedError, match="memoryOverhead"):
        manifests({"spark.driver.memoryOverhead": "much"})
    with pytest.raises(SubmissionRefusedError, match=r"spark.driver.supervise of 'departures' must be off"):
        manifests({"spark.driver.supervise": "true"})


def test_properties_place_the_pod():
    conf = {
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        "spark.kubernetes.container.image.pullPolicy": "Always",
        "spark.kubernetes.driver.node.selector.disk": "ssd",
        "spark.kubernetes.node.selector.zone": "a",
        "spark.kubernetes.scheduler.name": "volcano",
    }
    created = manifests(conf, {"spec": {"nodeSelector": {"zone": "b", "gpu": "no"}}})
    spec = created.pod["spec"]
    assert spec["nodeSelector"] == {"zone": "a", "gpu": "no", "disk": "ssd"}
    assert (spec["serviceAccountName"], spec["schedulerName"]) == ("spark", "volcano")
    assert (container(created)["image"], container(created)["imagePullPolicy"]) == ("spark:4", "Always")


def test_an_image_is_required():
    with pytest.raises(SubmissionRefusedError, match="the image is missing"):
        manifests({"spark.kubernetes.container.image": ""})
    own = {"spec": {"containers": [{"name": "any", "image": "own:1"}]}}
    assert container(manifests({"spark.kubernetes.container.image": ""}, own))["image"] == "own:1"
    other = {"spark.kubernetes.driver.container.image": "driver:1"}
    assert container(manifests(other))["image"] == "driver:1"


def test_a_template_keeps_what_the_client_does_not_determine():
    mount = {"name": "certificates", "mountPath": "/certificates"}
    own = {
        "name": "any",
        "volumeMounts": [mount],
        "env": [{"name": "AIRFLOW_ADAPTIVE_POD_UID", "value": "forged"}],
        "tty": True,
    }
    template = {
        "metadata": {"labels": {"a": "b", "spark-role": "x"}, "annotations": {"c": "d"}},
        "spec": {
            "containers": [own, {"name": "proxy"}],
            "tolerations": [{"key": "k"}],
            "volumes": [{"name": "certificates"}],
        },
    }
    created = manifests({}, template)
    spec = created.pod["spec"]
    assert [each["name"] for each in spec["containers"]] == ["spark-kubernetes-driver", "proxy"]
    assert container(created)["tty"] is True
    assert mount in container(created)["volumeMounts"]
    assert {"name": "certificates"} in spec["volumes"]
    assert spec["tolerations"] == [{"key": "k"}]
    assert env(created)["AIRFLOW_ADAPTIVE_POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert (created.pod["metadata"]["labels"]["a"], created.pod["metadata"]["labels"]["spark-role"]) == ("b", "driver")
    assert created.pod["metadata"]["annotations"]["c"] == "d"


def test_a_standby_prefers_another_node_than_that_of_the_driver():
    own = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
    affinity = {"nodeAffinity": {"a": 1}, "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}}
    template = {"spec": {"affinity": affinity}}
    drivers = {"matchLabels": {"airflow-adaptive/job": "departures", "spark-role": "driver"}}
    term = {"weight": 100, "podAffinityTerm": {"labelSelector": drivers, "topologyKey": "kubernetes.io/hostname"}}
    standby = manifests({STANDBY_EXECUTORS: "0"}, template).pod["spec"]["affinity"]
    assert standby["nodeAffinity"] == {"a": 1}
    assert standby["podAntiAffinity"] == {"preferredDuringSchedulingIgnoredDuringExecution": [own, term]}
    assert manifests({}, template).pod["spec"]["affinity"] == affinity


def test_volumes_of_the_job_can_hold_the_local_files():
    prefix = "spark.kubernetes.driver.volumes.emptyDir.spark-local-dir-1"
    created = manifests({f"{prefix}.mount.path": "/scratch"})
    assert env(created)["SPARK_LOCAL_DIRS"] == "/scratch"
    names = [volume["name"] for volume in created.pod["spec"]["volumes"]]
    assert names == ["spark-local-dir-1", "airflow-adaptive-files"]
    assert env(manifests())["SPARK_LOCAL_DIRS"] == "/var/data/airflow-adaptive"


def test_the_pod_owns_what_it_waits_for():
    created = manifests(secret_env={"TOKEN": "t0ps3cret"})
    dependents = created.dependents("uid-1")
    config, secret = dependents["configmaps"], dependents["secrets"]
    assert (config["apiVersion"], config["kind"], config["data"]) == ("v1", "ConfigMap", created.config)
    assert (secret["apiVersion"], secret["kind"], secret["stringData"]) == ("v1", "Secret", created.secret)
    for manifest in dependents.values():
        assert manifest["metadata"]["name"] == NAME
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert owner == {"apiVersion": "v1", "kind": "Pod", "name": NAME, "uid": "uid-1"}
    sources = created.pod["spec"]["volumes"][-1]["projected"]["sources"]
    items = [{"key": name, "path": name} for name in ("executor-pod.json", "spark.properties")]
    assert sources == [{"configMap": {"name": NAME, "items": items}}]


def test_a_driver_without_secrets_has_no_secret():
    assert [*manifests().dependents("uid-1")] == ["configmaps"]


def test_secret_values_are_in_the_secret_only():
    conf = {"spark.my.secret.key": "t0ps3cret-1", "spark.public": "visible"}
    created = manifests(
        conf,
        secret_env={"DB_PASSWORD": "t0ps3cret-2", "SHADOWED": "t0ps3cret-4"},
        address_conf={"spark.my.password": "t0ps3cret-3"},
        env={"SHADOWED": "plain"},
    )
    assert "t0ps3cret" not in json.dumps([created.pod, dict(created.config)])
    assert "spark.public=visible" in created.config["spark.properties"]
    assert created.secret == {
        "DB_PASSWORD": "t0ps3cret-2",
        SECRET_ENV_VARIABLE: json.dumps(["DB_PASSWORD"]),
        SECRET_CONF_VARIABLE: json.dumps({"spark.my.password": "t0ps3cret-3", "spark.my.secret.key": "t0ps3cret-1"}),
    }
    assert env(created)["DB_PASSWORD"] == {"secretKeyRef": {"name": NAME, "key": "DB_PASSWORD"}}


def test_named_properties_are_secret_whatever_their_names():
    conf = {"spark.region": "t0ps3cret-1", "spark.hadoop.fs.zone": "t0ps3cret-2", "spark.public": "visible"}
    created = manifests(address_conf=conf, secret_names=["spark.region", "spark.hadoop.fs.zone"])
    assert "t0ps3cret" not in json.dumps([created.pod, dict(created.config)])
    assert json.loads(created.secret[SECRET_CONF_VARIABLE]) == {name: conf[name] for name in [*conf][:2]}
    read_at_launch = created.secret["spark.properties"]
    assert "t0ps3cret-2" in read_at_launch
    assert "t0ps3cret-1" not in read_at_launch
    (pattern,) = [line for line in read_at_launch.splitlines() if line.startswith("spark.redaction.regex")]
    assert "spark" in pattern.rpartition("region")[0]


def test_secrets_that_values_assign_are_in_the_secret_only():
    options = "-Xss4m -Djavax.net.ssl.trustStorePassword=t0ps3cret-1"
    url = "jdbc:postgresql://db/flights?user=me&password=t0ps3cret-2"
    created = manifests(address_conf={"spark.driver.extraJavaOptions": options, "spark.my.url": url})
    assert "t0ps3cret" not in json.dumps([created.pod, created.config])
    assert json.loads(created.secret["AIRFLOW_ADAPTIVE_SECRET_CONF"]) == {"spark.my.url": url}
    assert "t0ps3cret-1" in created.secret["spark.properties"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.driver.extraJavaOptions", "-Dproxy=http://u:t0ps3cret@proxy"),
        ("spark.hadoop.fs.s3a.secret.key", "t0ps3cret"),
    ],
)
def test_secret_properties_that_spark_submit_reads_move_the_file_into_the_secret(name: str, value: str):
    created = manifests({name: value})
    assert "t0ps3cret" not in json.dumps([created.pod, dict(created.config)])
    assert "t0ps3cret" in created.secret["spark.properties"]
    assert "spark.properties" not in env(created)
    sources = created.pod["spec"]["volumes"][-1]["projected"]["sources"]
    items = [{"key": "spark.properties", "path": "spark.properties"}]
    template = [{"key": "executor-pod.json", "path": "executor-pod.json"}]
    assert sources == [
        {"configMap": {"name": NAME, "items": template}},
        {"secret": {"name": NAME, "items": items}},
    ]


def test_the_config_map_contains_the_code():
    submission = DriverSubmission(name="departures", epoch=2, nonce="n", script="/run.py", conf=IMAGE)
    code = MountedCode(files={"code-0": b"\xff"}, paths={"code-0": "code/run.py"})
    created = driver_manifests(submission, KubernetesAddress(server="https://api"), code)
    assert created.dependents("uid-1")["configmaps"]["binaryData"] == {"code-0": "/w=="}
    items = created.pod["spec"]["volumes"][-1]["projected"]["sources"][0]["configMap"]["items"]
    assert items[-1] == {"key": "code-0", "path": "code/run.py"}


def test_executors_get_their_template_from_the_config_map():
    text = json.dumps({"spec": {"tolerations": [{"key": "k"}]}})
    created = manifests(executor_template=text)
    assert json.loads(created.config["executor-pod.json"])["spec"]["tolerations"] == [{"key": "k"}]
    line = "spark.kubernetes.executor.podTemplateFile=/etc/airflow-adaptive/executor-pod.json"
    assert line in created.config["spark.properties"]


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
