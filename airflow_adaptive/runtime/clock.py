"""The wall clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """The machine's clock (port `Clock`)."""

    def now(self) -> datetime:
        """Aware, UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
