"""A declared batch on its way through the Spark provider to a spark-submit that only notes what it was given."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from airflow_adaptive._airflow.declaration import batch as batches
from airflow_adaptive._airflow.declaration.batch import (
    BatchSubmission,
    default_properties,
    environment,
    spark_submit,
)
from airflow_adaptive._airflow.declaration.declared_job import DeclaredJob
from airflow_adaptive._airflow.internals import AirflowException
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive.local.waiting import LocalClusterError

pytestmark = [
    # The provider leaves the pipe from spark-submit to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
]

SECRET = "spark.hadoop.fs.s3a.secret.key"

SPARK_SUBMIT = dedent(
    f"""\
    #!{sys.executable}
    import json, os, sys
    arguments = sys.argv[1:]
    file = arguments[arguments.index("--properties-file") + 1] if "--properties-file" in arguments else None
    text = open(file).read() if file else None
    mode = oct(os.stat(file).st_mode & 0o777) if file else None
    with open(os.environ["NOTES"], "w") as notes:
        json.dump({{"arguments": arguments, "env": dict(os.environ), "file": file, "text": text, "mode": mode}}, notes)
    print("ValueError: no such carrier")
    sys.exit(int(os.environ.get("EXIT", "0")))
    """
)

BATCH = DeclaredJob(
    "flights",
    {
        "conn_id": "spark_test",
        "application": "/jobs/flights.py",
        "job_graph": None,
        "parallelism": 3,
        "max_parallelism": None,
        "application_args": ("--day", "1"),
        "jars": ["/jars/a.jar", "/jars/b.jar"],
        "packages": "org.example:routes:1.1",
        "archives": "/jobs/env.zip#env",
        "py_files": ["/jobs/a.py", "/jobs/b.zip"],
        "name": "Flights of today",
        "env_vars": {"REGION": "eu"},
        "driver_cores": 1,
        "driver_memory": "512m",
        "executor_cores": 2,
        "executor_memory": "768m",
    },
)

CONF = {"spark.sql.shuffle.partitions": "4"}


class Submitted:
    """What the fake spark-submit was given."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def __getitem__(self, name: str) -> Any:
        return json.loads(self._notes.read_text())[name]

    def option(self, name: str) -> str:
        arguments: list[str] = self["arguments"]
        return arguments[arguments.index(name) + 1]


def connect(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    connection = {"conn_type": "spark", "host": "spark://master:7077", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps(connection))


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Submitted:
    """A spark-submit on PATH, which the connection names."""
    command = tmp_path / "spark3-submit"
    command.write_text(SPARK_SUBMIT)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes.json"))
    for name in (*batches.PYTHON_VARIABLES, "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    connect(monkeypatch, **{"spark-binary": "spark3-submit"})
    return Submitted(tmp_path / "notes.json")


def test_batch_is_submitted_with_all_that_was_declared(submitted: Submitted) -> None:
    BatchSubmission(BATCH, CONF).run()
    assert submitted.option("--master") == "spark://master:7077"
    assert submitted.option("--deploy-mode") == "client"
    assert submitted.option("--name") == "Flights of today"
    assert submitted.option("--jars") == "/jars/a.jar,/jars/b.jar"
    assert submitted.option("--packages") == "org.example:routes:1.1"
    assert submitted.option("--archives") == "/jobs/env.zip#env"
    assert submitted.option("--py-files") == "/jobs/a.py,/jobs/b.zip"
    assert submitted.option("--conf") == "spark.sql.shuffle.partitions=4"
    assert (submitted.option("--driver-memory"), submitted.option("--executor-memory")) == ("512m", "768m")
    assert submitted["arguments"][-3:] == ["/jobs/flights.py", "--day", "1"]
    assert submitted["env"]["REGION"] == "eu"
    assert submitted["env"]["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert submitted["file"] is None


def test_secret_variables_of_the_connection_are_in_the_environment_only(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: Any
) -> None:
    variables = {"DB_LOGIN": "hush", "REGION": "hush-too"}
    connect(monkeypatch, **{"spark-binary": "spark3-submit", "secret-env": variables})
    BatchSubmission(BATCH, CONF).run()
    assert submitted["env"]["DB_LOGIN"] == "hush"
    assert submitted["env"]["REGION"] == "eu", "the declaration takes precedence"
    assert "hush" not in " ".join(submitted["arguments"]) + caplog.text + "".join(capfd.readouterr())


def test_slots_are_cores_of_whole_executors(submitted: Submitted) -> None:
    BatchSubmission(BATCH, CONF).run()
    assert (submitted.option("--executor-cores"), submitted.option("--total-executor-cores")) == ("2", "4")


def test_secret_properties_travel_in_a_file_that_is_gone_afterwards(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: Any
) -> None:
    conf = {SECRET: "hush", "spark.hadoop.fs.s3a.endpoint": "http://s3", "spark.sql.shuffle.partitions": "200"}
    connect(monkeypatch, **{"spark-binary": "spark3-submit", "conf": conf})
    BatchSubmission(BATCH, CONF).run()
    assert submitted["text"] == f"{SECRET}=hush\n"
    assert submitted["mode"] == "0o600"
    assert not Path(submitted["file"]).exists()
    arguments = submitted["arguments"]
    assert "hush" not in " ".join(arguments)
    assert "hush" not in caplog.text + "".join(capfd.readouterr())
    assert "spark.hadoop.fs.s3a.endpoint=http://s3" in arguments
    assert "spark.sql.shuffle.partitions=4" in arguments, "the task's own property wins"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:mysql://db/hive?user=hive&password=hush"),
        ("spark.my.kafka.options", 'mechanism=PLAIN;password="hush"'),
        ("spark.my.redis", '{"token": "hush"}'),
    ],
)
def test_property_that_assigns_a_secret_is_on_no_command_line(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    connect(monkeypatch, **{"spark-binary": "spark3-submit", "conf": {name: value}})
    BatchSubmission(BATCH, CONF).run()
    assert "hush" in submitted["text"]
    assert "hush" not in " ".join(submitted["arguments"])


def test_named_properties_are_secret_whatever_their_names(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, **{"spark-binary": "spark3-submit", "secret-conf": {"spark.region": "hush"}})
    BatchSubmission(BATCH, CONF).run()
    assert submitted["text"] == "spark.region=hush\n"
    assert "hush" not in " ".join(submitted["arguments"])


def test_secrets_do_not_hide_the_defaults_of_the_installation(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.eventLog.enabled true")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    connect(monkeypatch, **{"spark-binary": "spark3-submit", "conf": {SECRET: "hush"}})
    BatchSubmission(BATCH, CONF).run()
    assert submitted["text"] == f"spark.eventLog.enabled true\n{SECRET}=hush\n"


def test_failed_batch_shows_the_end_of_its_output(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXIT", "1")
    with pytest.raises(AirflowException, match="no such carrier"):
        BatchSubmission(BATCH, CONF).run()


def test_connection_to_another_cluster_manager_is_refused(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps({"conn_type": "spark", "host": "yarn"}))
    with pytest.raises(AddressError, match="'spark_test'"):
        BatchSubmission(BATCH, CONF).run()


def test_killing_a_batch_that_does_not_run_is_nothing(submitted: Submitted) -> None:
    submission = BatchSubmission(BATCH, CONF)
    submission.kill()
    submission.run()
    submission.kill()


# ---- what is found out ----------------------------------------------------------------------------------------------


def test_spark_submit_is_the_one_of_the_installed_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch)
    found = spark_submit("spark_test")
    assert found is not None
    assert Path(found).name == "spark-submit"
    assert os.access(found, os.X_OK)


def test_spark_submit_is_the_one_on_path_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise LocalClusterError("pyspark is not installed")

    connect(monkeypatch)
    monkeypatch.setattr(batches, "find_spark", missing)
    assert spark_submit("spark_test") is None


@pytest.mark.parametrize("name", batches.PYTHON_VARIABLES)
def test_chosen_python_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable in batches.PYTHON_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert environment({}) == {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert environment({name: "python3.12"}) == {name: "python3.12"}
    monkeypatch.setenv(name, "python3.13")
    assert environment({}) == {}


def test_defaults_lie_where_spark_reads_them(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("a 1")
    assert default_properties({"SPARK_HOME": str(tmp_path)}) == "a 1\n"
    assert default_properties({"SPARK_CONF_DIR": str(tmp_path)}) == ""
    assert default_properties({}) == ""
