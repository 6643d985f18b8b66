"""The documents of control requests: what they contain, also if other programs have written them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_adaptive._core.requirements.control_requests import Requester, decode_requester


def test_requester_is_the_user_the_interface_and_the_expiry() -> None:
    document = {"value": "canceled", "by": "ada", "via": "CLI", "until": "2026-11-25T12:00:00+00:00"}
    assert decode_requester(document) == Requester(
        requested_by="ada", via="CLI", expires_at=datetime(2026, 11, 25, 12, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"by": None, "via": None, "until": 7}, {"until": "soon"}, {"until": "2026-11-25T12:00:00"}],
)
def test_field_of_the_requester_that_is_missing_or_invalid_is_unknown(document: Any) -> None:
    assert decode_requester(document) == Requester(requested_by="", via="", expires_at=None)
