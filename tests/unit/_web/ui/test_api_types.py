"""The page has the types of the response bodies: TypeScript from the OpenAPI document; write them with `python -m tests.unit._web.ui.test_api_types`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from airflow_adaptive._web.api.app import create_app, schema
from tests.support.repository import ROOT

TYPES: Final = ROOT / "airflow_adaptive" / "_web" / "ui" / "src" / "api" / "schemas.ts"

HEAD: Final = (
    "/** Written by `python -m tests.unit._web.ui.test_api_types` from the OpenAPI document of the REST API. */\n"
)

NAMES: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def types(document: Mapping[str, Any]) -> str:
    """Return the types of all schemas of an OpenAPI document. Every field is present in a response."""
    schemas = document["components"]["schemas"]
    return HEAD + "".join(f"\n{_declaration(name, schema)}\n" for name, schema in sorted(schemas.items()))


def _declaration(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};"
    fields = [f"  {field}: {_type(it)};\n" for field, it in sorted(schema["properties"].items())]
    return f"export interface {name} {{\n{''.join(fields)}}}"


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"anyOf": members}:
            return " | ".join(dict.fromkeys(map(_type, members)))
        case {"type": "array", "items": items}:
            item = _type(items)
            return f"({item})[]" if "|" in item else f"{item}[]"
        case {"type": "object"}:
            return f"Record<string, {_type(schema.get('additionalProperties', {}))}>"
        case {"type": kind}:
            return NAMES[kind]
        case _:
            return "unknown"


def test_types_of_the_page_are_those_of_the_api() -> None:
    assert TYPES.read_text() == types(schema(create_app(), "")), "run `python -m tests.unit._web.ui.test_api_types`"


if __name__ == "__main__":
    TYPES.write_text(types(schema(create_app(), "")))
