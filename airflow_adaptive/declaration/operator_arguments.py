"""Converts the arguments of an operator's constructor."""

from __future__ import annotations

from typing import Any

from airflow_adaptive.scheduler.config.options import OPTIONS


def pop_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Remove the scheduler's options from the arguments of an operator, and return the options.

    Options in the `default_args` of the DAG are returned, too. The arguments of the operator take precedence.
    """
    defaults = kwargs.get("default_args") or {}
    options = {name: value for name, value in defaults.items() if _is_option(name)}
    return options | {name: kwargs.pop(name) for name in [*kwargs] if _is_option(name)}


def as_list(assets: Any) -> list[Any]:
    """Inlets or outlets as a list. Airflow also accepts None and a single asset."""
    if assets is None:
        return []
    return list(assets) if isinstance(assets, list | tuple) else [assets]


def _is_option(name: str) -> bool:
    """Return whether a parameter is an option, by its own name or by Flink's. Only Flink's names contain dots."""
    return name in OPTIONS or "." in name
