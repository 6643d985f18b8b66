"""Defaults of the scheduler's options for all jobs of a deployment: section `[adaptive]` of airflow.cfg."""

from __future__ import annotations

import json
import os
from configparser import RawConfigParser
from functools import cache

from airflow_adaptive._airflow.internals import conf
from airflow_adaptive._core.scheduler.config.options import OPTIONS
from airflow_adaptive._core.scheduler.errors import OptionError, did_you_mean

SECTION = "adaptive"


def is_deferral_off() -> bool:
    """Return whether the administrator has turned deferral off with `[operators] default_deferrable` (ADR 24)."""
    section, option = "operators", "default_deferrable"
    if conf.getboolean(section, option):
        return False
    return f"AIRFLOW__{section}__{option}".upper() in os.environ or _did_administrator_write(section, option)


@cache
def _did_administrator_write(section: str, option: str) -> bool:
    """Return whether the administrator wrote an option into airflow.cfg.

    The airflow.cfg that Airflow generates contains each option with its default. Therefore an option in a section that contains defaults does
    not count.
    """
    # `as_dict` of Airflow 3.1 also executes the commands that return secrets, which fail where Airflow parses DAGs.
    if not RawConfigParser.has_section(conf, section):
        return False
    names = RawConfigParser.options(conf, section)
    written = {name: RawConfigParser.get(conf, section, name, raw=True) for name in names}
    return option in written and not any(
        value == conf.get_default_value(section, name) for name, value in written.items() if name != option
    )


def configured_options() -> dict[str, object]:
    """Return the options that section `[adaptive]` sets, as text. The section contains mappings as JSON.

    An empty value is ignored. A value that equals the default is ignored, too, because Airflow reports the default of every option, and
    some defaults depend on other options.

    Raises:
        OptionError: the section contains an unknown option, or a value starts with `{` and is not valid JSON.
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
        raise OptionError(f"[{SECTION}] {name} = {text} is not valid JSON: {error}") from error
