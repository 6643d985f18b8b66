"""The bearer token of a cluster: which requests carry the token, and how a client replaces a token that the masters refuse."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatch
from urllib.parse import urlsplit

from airflow_adaptive._clusters.standalone.address import ClusterAddress

log = logging.getLogger(__name__)

RENEW_INTERVAL_S = 30.0
"""Shortest time between two reads of a connection whose token is refused."""

Renew = Callable[[], Awaitable[ClusterAddress | None]]
"""Reads the connection of a cluster again; None if the connection cannot be read now."""


class Credentials:
    """The token of a cluster, and the servers that may receive it.

    The masters name the addresses of their workers, and these addresses are not trusted. Only the configured servers of the masters, and
    hosts in the field `token-hosts` of the connection, receive the token. If the connection configures https for any server, no server
    receives the token over http.

    Attributes:
        token: current token, None without one.
        used: all tokens since the start, for masking.
    """

    def __init__(self, address: ClusterAddress, renew: Renew | None = None) -> None:
        """Use the token of the address.

        Args:
            address: configured servers, and the first token.
            renew: reads the connection again after a refusal; None if the token cannot change.
        """
        self.token = address.token
        self.used = [address.token] if address.token else []
        self._address = address
        self._renew = renew
        self._renewing = asyncio.Lock()
        self._renewed_s = -math.inf
        self._servers = {url for master in address.masters for url in (master.ui_url, master.rest_url)}
        self._requires_https = any(url.startswith("https:") for url in self._servers)

    @property
    def connection(self) -> str:
        """The Airflow connection with the token, for messages."""
        return f"connection {self._address.conn_id!r}" if self._address.conn_id else "the connection"

    def cover(self, url: str) -> bool:
        """Return whether the server of a URL may receive the token."""
        parts = urlsplit(url)
        if self._requires_https and parts.scheme != "https":
            return False
        is_server = f"{parts.scheme}://{parts.netloc}" in self._servers
        return is_server or any(fnmatch(parts.hostname or "", host) for host in self._address.token_hosts)

    def headers(self, url: str) -> Mapping[str, str]:
        """Return the headers that authorize a request to a URL."""
        return {"Authorization": f"Bearer {self.token}"} if self.token and self.cover(url) else {}

    async def renew(self, refused: str | None) -> bool:
        """Read the connection again, because a server refused a token; return whether there is another token now.

        Many loops share the client, so the connection is read once for all of them. A connection that names other masters now does not
        change this client, because the driver runs on the cluster of these masters.
        """
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self.token == refused and self._renew is not None and now - self._renewed_s >= RENEW_INTERVAL_S:
                self._renewed_s = now
                self._adopt(await self._renew())
        return self.token != refused

    def _adopt(self, address: ClusterAddress | None) -> None:
        if address is None or address.token == self.token or set(address.masters) != set(self._address.masters):
            return
        log.info("The connection of %s has another token now.", self._address.master_url)
        self.token = address.token
        self.used += [address.token] if address.token else []
