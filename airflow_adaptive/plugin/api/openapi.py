"""What FastAPI leaves out of the OpenAPI document, and the document as a page without any script or foreign file."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, Final

from airflow_adaptive.plugin.api.problems import KIND, MEDIA_TYPE
from airflow_adaptive.plugin.api.schemas import Problem, VertexRequirements

EXAMPLES: Final = Path(__file__).parent / "examples.json"
"""Operation -> an answer that it gave, shortened."""

LIKE: Final = dict.fromkeys(("cancel_job", "suspend_job", "resume_job"), "get_job")
"""Operations that answer as others do."""

REF: Final = "#/components/schemas/{model}"

TAGS: Final = [
    {"name": "Jobs", "description": "Which jobs there are, what they do, and what is wished of them."},
    {"name": "Resource requirements", "description": "What a job may use (FLIP-291)."},
    {"name": "Observations", "description": "What a job did and does."},
    {"name": "Rescales", "description": "Rescales as Flink 2.3 tells them (FLIP-487)."},
]

ALWAYS: Final = {
    "401": ("not-authenticated", "Nobody is logged in."),
    "403": ("forbidden", "You may not do this with every DAG that names the job."),
    "404": ("not-found", "There is no such job, or it has not shown this yet."),
    "422": ("invalid-parameters", "A parameter is invalid."),
    "500": ("internal", "Something went wrong inside."),
}
"""Answers of every operation; of one that lists, 404 and 403 do not occur."""

CHANGING: Final = {
    "409": ("conflict", "The job is not such that this could be done: it has ended, is a batch, or is unknown."),
    "413": ("too-large", "The body is too large."),
    "415": ("unsupported-media-type", "The header Content-Type is not application/json."),
    "503": ("not-persisted", "The database did not take it; nothing was changed."),
}

WITH_BODY: Final = {"400": ("invalid-requirements", "Everything that is wrong with the body.")}

PUTTING: Final = {"412": ("lost-update", "The requirements are others than those of If-Match.")}

WATCHING: Final = {"503": ("crowded", "Too many watch jobs here already.")}


def completed(document: dict[str, Any], root_path: str) -> dict[str, Any]:
    """The document with errors, tags and the server's address."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for model in (Problem, VertexRequirements):
        _add_schema(schemas, model)
    examples = json.loads(EXAMPLES.read_text())
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_problems(operation, _problems(path, method))
            _add_example(operation, examples)
    return {**document, "servers": [{"url": root_path or "/"}], "tags": TAGS}


def _add_schema(schemas: dict[str, Any], model: type[Any]) -> None:
    found = model.model_json_schema(ref_template=REF)
    schemas.update(found.pop("$defs", {}))
    schemas[model.__name__] = found


def _add_example(operation: dict[str, Any], examples: dict[str, Any]) -> None:
    name = operation["operationId"]
    example = examples.get(LIKE.get(name, name))
    for status in ("200", "202"):
        content = operation["responses"].get(status, {}).get("content", {}).get("application/json")
        if content is not None and example is not None:
            content["example"] = example


def _problems(path: str, method: str) -> dict[str, tuple[str, str]]:
    found = dict(ALWAYS)
    if "{job}" not in path:
        del found["403"], found["404"]
    if method != "get":
        found |= CHANGING
    if "resource-requirements" in path and method not in ("get", "delete"):
        found |= WITH_BODY
    if method == "put":
        found |= PUTTING
    if path.endswith("/events"):
        found |= WATCHING
    return found


def _add_problems(operation: dict[str, Any], problems: dict[str, tuple[str, str]]) -> None:
    for status, (kind, description) in sorted(problems.items()):
        example = {"type": KIND + kind, "title": kind, "status": int(status), "detail": description, "instance": "/"}
        operation["responses"][status] = {
            "description": description,
            "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(model="Problem")}, "example": example}},
        }


def page(document: dict[str, Any]) -> str:
    """The document for people to read."""
    operations = [
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    style = "body{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem;color-scheme:light dark}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f'<h1>{title}</h1><p>{escape(document["info"]["description"])}</p><p><a href="openapi.json">openapi.json</a></p>'
        f"{''.join(operations)}</html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    answers = [
        f"<li>{escape(status)}: {escape(answer['description'])}</li>"
        for status, answer in sorted(operation["responses"].items())
    ]
    example = "" if body is None else f"<p>Body: <code>{escape(json.dumps(body))}</code></p>"
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
        f"<ul>{''.join(parameters)}</ul>{example}<details><summary>Answers</summary><ul>{''.join(answers)}</ul></details>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    name, where = escape(parameter["name"]), escape(parameter["in"])
    return f"<li><code>{name}</code> ({where}): {escape(parameter.get('description', ''))}</li>"
