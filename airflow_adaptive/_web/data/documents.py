"""Models of the documents that are not in `_core.view`: requesters of control requests, and pages of metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """Base of all models. Unknown fields of a later version are ignored."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)


class RequestRecord(Document):
    """Requester, time and expiry of a control request."""

    by: str = Field(description="User or task that made the request.")
    at: datetime = Field(description="Time of the request.")
    via: str = Field(description="Interface of the request, for example REST.")
    until: datetime | None = Field(default=None, description="Time at which requested bounds expire; null for never.")


class Metrics(Document):
    """A time series, oldest point first. Each point has one value per column."""

    step: int
    columns: list[str]
    points: list[list[Any]]


class CurrentMetrics(Document):
    """The newest point of the metrics of a job."""

    at: int = Field(description="Seconds since the epoch.")
    slots: int
    lower: int
    upper: int
    input: float | None = Field(description="Rows read per second.")
    processed: float | None = Field(description="Rows processed per second while a batch runs.")
    batch_ms: int | None
    backlog: int | None = Field(description="Rows that are waiting at the sources.")
    lag_s: float | None = Field(
        default=None, description="Age of the oldest unread row at the sources in seconds; null if it is unknown."
    )
