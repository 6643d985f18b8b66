"""The deployment's own defaults of the scheduler's options: section `[adaptive]` of airflow.cfg."""

from __future__ import annotations

import json

from airflow.sdk import conf

from airflow_adaptive.scheduler.config.options import OPTIONS
from airflow_adaptive.scheduler.errors import OptionError, did_you_mean

SECTION = "adaptive"


def configured_options() -> dict[str, object]:
    """What `[adaptive]` sets, as text. Mappings are written as JSON.

    An empty value is not set; nor is the default, which Airflow tells of every option (and which may depend on others).

    Raises:
        OptionError: there is no such option, or a value begins like JSON and is not.
    """
    unknown = [name for name in conf.getsection(SECTION) or {} if name not in OPTIONS]
    if unknown:
        hints = "; ".join(f"{name!r}{did_you_mean(name, OPTIONS)}" for name in unknown)
        raise OptionError(f"[{SECTION}] in airflow.cfg has no option {hints}")
    found = {name: conf.get(SECTION, name, fallback="") for name in OPTIONS}
    return {name: _value(name, text) for name, text in found.items() if text not in ("", str(OPTIONS[name].default))}


def _value(name: str, text: str) -> object:
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"[{SECTION}] {name} = {text} is no JSON: {error}") from error
