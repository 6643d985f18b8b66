"""Bodies about failures."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from airflow_adaptive.plugin.data.documents import Document


class Failure(Document):
    """A failure with its causes."""

    error_class: str
    message: str
    causes: list[str] = Field(default=[])


class FailureEntry(Document):
    """A failure, the decision of the scheduler, and concurrent failures."""

    at: datetime
    state: str
    failure: Failure
    decision: str
    concurrent: list[Failure] = Field(default=[])


class Failures(Document):
    """Recent failures, newest first."""

    failures: list[FailureEntry]
    total_entries: int
