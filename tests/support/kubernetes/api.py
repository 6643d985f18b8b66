"""A small client of a Kubernetes API for the tests. It is independent of the client that the product uses."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from airflow_adaptive.local.waiting import wait_until

Json = Mapping[str, Any]

TIMEOUT_S: Final = 240.0

NOT_FOUND: Final = 404


class ApiError(Exception):
    """The API server refused a request.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class KubernetesApi:
    """Reads and writes objects by their paths, such as `/api/v1/namespaces/team-a/pods/job`."""

    def __init__(
        self,
        url: str,
        *,
        ca: Path,
        token: str | None = None,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, verify=context, timeout=TIMEOUT_S, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def responds(self, path: str) -> bool:
        """Return whether a request succeeds."""
        return self._http.get(path).is_success

    def get(self, path: str) -> Json:
        """Return an object.

        Raises:
            ApiError: the API server refused the request.
        """
        return _checked(self._http.get(path))

    def find(self, path: str) -> Json | None:
        """Return an object, or None if it does not exist."""
        response = self._http.get(path)
        return None if response.status_code == NOT_FOUND else _checked(response)

    def text(self, path: str) -> str:
        """Return a response that is no object, such as the log of a pod."""
        response = self._http.get(path)
        if not response.is_success:
            raise ApiError(response.status_code, response.text)
        return response.text

    def list(self, path: str, **parameters: str) -> list[Json]:
        """Return the objects of a collection. Parameters are for example `labelSelector` and `fieldSelector`."""
        items: list[Json] = _checked(self._http.get(path, params=parameters))["items"]
        return items

    def create(self, collection: str, manifest: Json) -> Json:
        """Create an object, or a subresource such as an eviction."""
        return _checked(self._http.post(collection, json=manifest))

    def patch(self, path: str, change: Json) -> Json:
        """Change an object by a merge patch."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return _checked(self._http.patch(path, json=change, headers=headers))

    def delete(self, path: str, *, grace_period_s: int | None = None) -> None:
        """Delete an object, which may still exist afterwards. A grace period of 0 deletes a pod by force."""
        parameters = {} if grace_period_s is None else {"gracePeriodSeconds": str(grace_period_s)}
        _checked(self._http.delete(path, params=parameters))

    def wait_for(self, path: str, condition: Callable[[Json], bool], what: str, timeout_s: float = TIMEOUT_S) -> Json:
        """Read an object repeatedly until it exists and the condition is true, and return it.

        Raises:
            TimeoutError: the condition is still false after the timeout. The message contains the status of the object.
        """

        def found() -> Json | None:
            item = self.find(path)
            return item if item is not None and condition(item) else None

        try:
            return wait_until(found, timeout_s, what)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; status: {(self.find(path) or {}).get('status')}") from error

    def wait_until_gone(self, path: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until an object does not exist.

        Raises:
            TimeoutError: the object still exists after the timeout.
        """
        wait_until(lambda: self.find(path) is None, timeout_s, f"end of {path}")


def _checked(response: httpx.Response) -> Json:
    content: Json = response.json()
    if not response.is_success:
        raise ApiError(response.status_code, str(content.get("message", content)))
    return content
