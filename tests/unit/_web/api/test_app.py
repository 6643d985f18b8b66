"""The OpenAPI document is complete and true: requests made from it, many of them nonsense, get answers that it foretells."""

from __future__ import annotations

import re
import warnings
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_adaptive._core.requirements.dry_run import Consequence
from airflow_adaptive._web.api.routes.events import Feed
from airflow_adaptive._web.api.security import MAX_NAME_CHARACTERS
from tests.support.airflow.airflow_app import API, AirflowApp
from tests.support.airflow.published_documents import executing, place
from tests.support.repository import ROOT

OPERATIONS = 19


@pytest.fixture
def document(airflow_app: AirflowApp) -> dict[str, Any]:
    return dict(airflow_app.client().get(f"{API}/openapi.json").json())


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_operation_states_all_that_can_come_of_it(document: dict[str, Any]) -> None:
    found = operations(document)
    assert len(found) == OPERATIONS
    assert len({operation["operationId"] for operation in found.values()}) == len(found)
    for name, operation in found.items():
        assert operation["tags"], name
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["security"], name
        assert {"401", "422", "500"} <= operation["responses"].keys(), name
        if not name.startswith("GET"):
            assert {"409", "413", "415"} <= operation["responses"].keys(), name
    assert document["servers"] == [{"url": "/adaptive"}]
    assert {tag["name"] for tag in document["tags"]} >= {operation["tags"][0] for operation in found.values()}


def test_every_operation_on_a_job_describes_the_names_of_jobs(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        for parameter in operation.get("parameters", []):
            if parameter["name"] == "job":
                schema = parameter["schema"]
                assert (schema["minLength"], schema["maxLength"]) == (1, MAX_NAME_CHARACTERS), name
                assert [bool(re.search(schema["pattern"], text)) for text in ("a b:c.[1]", "a/b", "a\\b", "a\nb")] == [
                    *(True, False, False, False)
                ], name
                assert schema["examples"] == ["departures"], name


def test_every_answer_has_an_example_that_its_schema_allows(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        for status, response in operation["responses"].items():
            for media_type, content in response.get("content", {}).items():
                assert "example" in content, f"{name} {status} {media_type}"
                if media_type != "text/event-stream":
                    schema = {**content["schema"], "components": document["components"]}
                    jsonschema.validate(content["example"], schema)


def test_fields_have_the_descriptions_of_their_dataclasses(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    described = {
        (kind, name): field.get("description")
        for kind in schemas
        for name, field in schemas[kind].get("properties", {}).items()
    }
    assert described["JobDetails", "restarts"] == described["JobItem", "restarts"] == "Number of restarts."
    assert described["Rescale", "end"] == "Time when the rescale ended, null before."
    assert [kind for kind, schema in schemas.items() if "Attributes:" in schema.get("description", "")] == []


def test_bodies_have_examples_that_are_accepted(airflow_app: AirflowApp, document: dict[str, Any]) -> None:
    place(airflow_app, executing())
    for name, operation in operations(document).items():
        if "requestBody" in operation:
            method, path = name.split(" ")
            example = operation["requestBody"]["content"]["application/json"]["example"]
            url = "/adaptive" + path.replace("{job}", "departures")
            assert airflow_app.client().request(method, url, json=example).status_code == 200


def test_documentation_page_needs_nothing_from_elsewhere(airflow_app: AirflowApp, document: dict[str, Any]) -> None:
    page = airflow_app.client().get(f"{API}/docs").text
    assert "<script" not in page
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page)
    for name in operations(document):
        assert f"<code>{name}</code>" in page


@pytest.mark.long
@pytest.mark.parametrize("number", range(OPERATIONS))
def test_requests_made_from_the_document_get_answers_that_it_foretells(
    airflow_app: AirflowApp, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    from airflow_adaptive._web.api.routes import events  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # schemathesis has deprecated friends
        import schemathesis  # noqa: PLC0415  takes seconds
        from schemathesis.python import asgi  # noqa: PLC0415

    monkeypatch.setattr(events, "FEED", Feed(poll_interval_s=0.001, lifetime_s=0.05))
    place(airflow_app, executing())
    authorization = {"Authorization": f"Bearer {airflow_app.token('editor')}"}
    schema = schemathesis.openapi.from_asgi(f"{API}/openapi.json", airflow_app.app, headers=authorization)
    found: list[Any] = list(schema.get_all_operations())
    assert len(found) == OPERATIONS
    try:
        _try(found[number].ok(), authorization)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asgi.shutdown_lifespans()


def _try(operation: Any, authorization: dict[str, str]) -> None:
    """Make requests; half of them about a job that there is."""
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415
    from schemathesis.specs.openapi import checks  # noqa: PLC0415

    required = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]

    @settings(
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), known=st.booleans())
    def requests(case: Any, known: bool) -> None:
        if known and "job" in case.path_parameters:
            case.path_parameters["job"] = "departures"
        case.call_and_validate(headers=authorization, checks=required)

    requests()


def test_reference_names_every_route(document: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "reference" / "rest-api.md").read_text()
    for name in operations(document):
        method, path = name.split(" ")
        assert f"`{method} {path.removeprefix('/api/v1')}`" in text, name


def test_reference_names_every_kind_of_problem() -> None:
    root = ROOT
    text = (root / "docs" / "reference" / "rest-api.md").read_text()
    sources = [path.read_text() for path in (root / "airflow_adaptive" / "_web").rglob("*.py")]
    raised = re.compile(r"(?:conflict\(\s*|HTTPStatus\.[A-Z_]+,\s*)\"([a-z-]+)\"")
    kinds = {kind for source in sources for kind in raised.findall(source)}
    assert len(kinds) > 10
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in text] == []


def test_reference_names_every_consequence_of_a_preview() -> None:
    text = (ROOT / "docs" / "reference" / "rest-api.md").read_text()
    assert [one for one in Consequence if f"| `{one}` |" not in text] == []
