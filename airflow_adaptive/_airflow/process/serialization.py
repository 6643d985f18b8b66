"""The serialization of triggers and of their events, which all triggers of this package share."""

from __future__ import annotations

from inspect import signature
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_adaptive._airflow.store.storable import storable


class SerializedByAttributes:
    """Mixin for triggers whose attributes have the names of their constructor arguments."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the constructor arguments. Airflow stores the arguments in clear text."""
        arguments = {name: getattr(self, name) for name in signature(type(self)).parameters}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments


def event_of(payload: Any) -> TriggerEvent:
    """Return the event with this payload. Every database of Airflow can store the event."""
    return TriggerEvent(storable(payload))
