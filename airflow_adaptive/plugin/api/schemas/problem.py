"""The body of an error."""

from __future__ import annotations

from pydantic import Field

from airflow_adaptive.plugin.data.documents import Document


class Problem(Document):
    """Problem details of an error (RFC 9457)."""

    type: str = Field(description="Kind of problem, for programs.", examples=["urn:airflow-adaptive:problem:not-found"])
    title: str = Field(description="Reason phrase of the HTTP status.", examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(
        description="Description of the problem and of its fix.", examples=["There is no adaptive job 'arivals'."]
    )
    instance: str = Field(description="Path of the request.", examples=["/adaptive/api/v1/jobs/arivals"])
    errors: list[str] = Field(default=[], description="All violations, if the request has several.")
