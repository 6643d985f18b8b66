"""Rendered templates, and their conversion to the types that the parameters of a job have.

Theory: `render_template_as_native_obj` gives the object of a template that is a single expression, such as a list. Jinja also evaluates
text as a literal of Python, so "1.10" becomes 1.1, and "" becomes None. A script and Spark get text, so here text remains as it is.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from jinja2 import Undefined

NUMBERS: Final = ("parallelism", "max_parallelism", "driver_cores", "executor_cores")
"""Templated parameters that are numbers, pairs of numbers or None."""

TEXTS: Final = (
    *("job_directory", "conn_id", "kubernetes_conn_id", "namespace", "kafka_conn_id", "properties_file"),
    *("driver_class_path", "name", "image", "service_account_name", "priority_class_name"),
)
"""Templated parameters that are text or None."""

COLLECTIONS: Final = ("application_args", "conf", "env_vars", "node_selector", "labels", "annotations")
"""Templated lists of texts, and mappings of names to texts."""

LONGEST_NUMBER: Final = 100
"""Maximum length of the text of a number, or of a pair of numbers. Python cannot parse every longer text."""


def native(nodes: Iterable[Any]) -> Any:
    """Return the result of a template: the object of a single expression, and otherwise text, which is not evaluated as a literal.

    Raises `jinja2.UndefinedError` for a name that the context does not contain.
    """
    found = [*nodes]
    if len(found) == 1 and not isinstance(found[0], str | Undefined):
        return found[0]
    return "".join(map(str, found))


def with_numbers(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with numbers instead of text. The validation rejects other text."""
    return {name: _number(value) if name in NUMBERS else value for name, value in parameters.items()}


def with_texts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with text instead of numbers, and with JSON instead of lists and mappings. The validation rejects other values."""
    return {name: _texts(name, value) for name, value in parameters.items()}


def _texts(name: str, value: Any) -> Any:
    if name in TEXTS:
        return str(value) if isinstance(value, int | float) else value
    if name not in COLLECTIONS or isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {key: _text(item) for key, item in value.items()}
    return [_text(item) for item in value] if isinstance(value, Sequence) else value


def _number(value: Any) -> Any:
    """Return "4" as 4, and "(1, 8)", "[1, 8]" and ("1", "8") as pairs of numbers."""
    if isinstance(value, list | tuple):
        return tuple(_number(item) for item in value)
    if not isinstance(value, str) or len(value) > LONGEST_NUMBER:
        return value
    try:
        return literal_eval(value.strip())
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return value


def _text(value: Any) -> Any:
    """Return the text that a script gets: JSON for a list or a mapping. None, bytes and sets have no text."""
    if isinstance(value, list | tuple | Mapping):
        with suppress(TypeError, ValueError, RecursionError):
            return json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False)
        return value
    return value if value is None or isinstance(value, bytes | set | frozenset) else str(value)
