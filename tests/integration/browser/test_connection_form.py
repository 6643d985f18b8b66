"""The form of connections of type `adaptive_spark` on Airflow's own page, and its button *Test connection*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.providers_manager import ProvidersManager
from playwright.sync_api import expect

from airflow_adaptive._clusters.standalone.address import parse_address
from airflow_adaptive.local.cluster import LocalCluster
from tests.integration.browser.conftest import Visitor
from tests.support.airflow.airflow_app import AirflowApp

pytestmark = pytest.mark.long

SECRET = "hush-hush-4711"


@pytest.fixture
def tests_are_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow disables tests of connections by default."""
    monkeypatch.setenv("AIRFLOW__CORE__TEST_CONNECTION", "Enabled")


@pytest.fixture
def stored(airflow_app: AirflowApp) -> Iterator[Any]:
    """Returns the connection as Airflow's database has it."""
    from airflow.models.connection import Connection  # noqa: PLC0415
    from sqlalchemy import delete, select  # noqa: PLC0415

    def connection() -> Connection | None:
        with airflow_app.session() as session:
            found: Connection | None = session.scalar(select(Connection).where(Connection.conn_id == "spark_form"))
            return found

    yield connection
    with airflow_app.session() as session:
        session.execute(delete(Connection).where(Connection.conn_id == "spark_form"))


@pytest.mark.skipif(
    not hasattr(ProvidersManager, "_add_widgets_from_hook"), reason="Airflow 3.1 reads no form from metadata"
)
@pytest.mark.filterwarnings(
    "ignore:ProvidersManager.hooks is deprecated"
)  # Airflow's own test of a connection reads it.
def test_form_is_filled_and_the_connection_is_tested(
    visitor: Visitor, spark_master: LocalCluster, tests_are_enabled: None, stored: Any
) -> None:
    urls = (spark_master.master_url, spark_master.ui_url, spark_master.rest_url)
    master, ui, rest = (urlsplit(url) for url in urls)
    page = visitor.open("/connections", user="admin")
    page.get_by_role("button", name="Add Connection").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Connection ID").fill("spark_form")
    form.get_by_label("Connection Type").fill("Adaptive Spark")
    page.get_by_role("option", name="Adaptive Spark").click()
    form.get_by_label("Masters or API server").fill(f"spark://{master.hostname}")
    form.get_by_label("Port", exact=True).fill(str(master.port))
    expect(form.get_by_label("Token")).to_have_attribute("type", "password")
    form.get_by_role("button", name="Spark standalone").click()
    form.get_by_label("Port of the web UI").fill(str(ui.port))
    form.get_by_label("Port of the REST submission server").fill(str(rest.port))
    form.get_by_label("Scheme of the web UI").click()
    page.get_by_role("option", name="http", exact=True).click()
    form.get_by_role("button", name="All clusters").click()
    secrets = form.get_by_role("group").filter(has_text="Secret Spark properties").get_by_role("textbox")
    secrets.fill(f"spark.region={SECRET}")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    connection = stored()
    address = parse_address(connection.host, connection.port, connection.password, connection.extra_dejson)
    assert (address.masters[0].ui_url, address.masters[0].rest_url) == urls[1:]
    assert address.conf == {"spark.region": SECRET}
    assert address.secret_names == {"spark.region"}
    page.get_by_role("button", name="Test Connection").click()
    expect(page.locator("body")).to_contain_text(f"at {urls[0]}, ")
    expect(page.locator("body")).to_contain_text(
        "slots are free. REST submission is enabled. spark.master.rest.allowed"
    )
    page.get_by_role("button", name="Edit Connection").click()
    page.get_by_role("button", name="All clusters").click()
    expect(secrets).to_have_value("***")
    assert SECRET not in page.content()


@pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")
@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("yarn", "host 'yarn' is not supported: use spark://host:port for a standalone cluster, or k8s://"),
        ("spark://127.0.0.1", "connection refused: check that the master is running, and that this is its web UI"),
    ],
)
def test_test_of_an_invalid_connection_shows_the_remedy(
    airflow_app: AirflowApp, visitor: Visitor, tests_are_enabled: None, stored: Any, host: str, message: str
) -> None:
    from airflow.models.connection import Connection  # noqa: PLC0415

    with airflow_app.session() as session:
        # With an empty port, Airflow 3.3 answers "Bad Request".
        connection = Connection(
            conn_id="spark_form", conn_type="adaptive_spark", host=host, port=1, extra='{"ui-port": 1}'
        )
        session.add(connection)
    page = visitor.open("/connections", user="admin")
    page.get_by_role("button", name="Test Connection").click()
    expect(page.locator("body")).to_contain_text(message)
