"""Set-up shared by all tests."""

from __future__ import annotations

import gc
import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.examples import register_profiles
from tests.support.java_options import use_short_lived_jvms
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from s3fs import S3FileSystem

pytest_plugins = [
    "tests.lab.fixtures",
    "tests.support.databases.fixtures",
    "tests.support.airflow.airflow_app_fixtures",
    "tests.support.browser_fixture",
    "tests.support.decorated_functions",
    "tests.support.kubernetes.fixtures",
    "tests.support.kafka.fixtures",
]

pytest.register_assert_rewrite("tests.lab")

LEVELS: Mapping[str, Sequence[str]] = {
    "integration/spark": ["cluster"],
    "integration/airflow": ["airflow", "cluster"],
    "integration/browser": ["browser"],
    "integration/kubernetes": ["kubernetes"],
    "integration/databases": ["databases"],
    "integration/kafka": ["kafka"],
    "lab/faults/unit": [],
    "lab/faults": ["faults"],
}
"""Directory of tests -> markers of its tests. An inner directory comes before its parent."""

_buckets = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Keep Airflow away from the home directory, and from the configuration that its user may have there."""
    register_profiles()
    use_short_lived_jvms()
    os.environ["AIRFLOW_HOME"] = str(config.cache.mkdir("airflow"))
    gc.disable()  # The imports of the tests make no garbage.


def pytest_collection_finish() -> None:
    """Keep all modules out of later collections of garbage."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the level of its directory.

    Tests that use a browser come last, because the event loop of the browser stays in the process and does not tolerate
    another event loop.
    """
    for item in items:
        for name in markers_of(item.path):
            item.add_marker(name)
    items.sort(key=lambda item: "browser" in getattr(item, "fixturenames", ()))


def markers_of(path: Path) -> Sequence[str]:
    """Return the markers of a test module: those of the innermost directory of `LEVELS` that contains the module."""
    return next((names for folder, names in LEVELS.items() if path.is_relative_to(ROOT / "tests" / folder)), ())


@pytest.fixture
def spark_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to a cluster that does not exist."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://spark%3A%2F%2F127.0.0.1:1")


@pytest.fixture(scope="session")
def s3() -> Iterator[S3FileSystem]:
    """An S3-compatible server in this process, and a client of it. Imported late: few tests need it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415
    from s3fs import S3FileSystem  # noqa: PLC0415
    from werkzeug.serving import make_server  # noqa: PLC0415

    # One request at a time: moto looks whether an object is there and writes it in two steps.
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield S3FileSystem(
        key="testing",
        secret="testing",
        endpoint_url=f"http://127.0.0.1:{server.server_port}",
        client_kwargs={"region_name": "us-east-1"},
    )
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bucket(s3: S3FileSystem) -> str:
    """A new bucket on `s3`."""
    name = f"airflow-adaptive-{next(_buckets)}"
    s3.call_s3("create_bucket", Bucket=name)  # mkdir adds a location that us-east-1 refuses
    return name
