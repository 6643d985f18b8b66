"""What accounts have requested from the API server, according to its audit log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.kubernetes.namespace import Namespace

OWN_PERMISSIONS: Final = "authorization.k8s.io"
"""Group of the requests with which an account reads its own permissions. Each account may send them."""


def requested(audit_log: Path, account: str, namespaces: Iterable[Namespace], *, cluster: bool = False) -> set[str]:
    """Return the verbs and resources that service accounts have requested, allowed or not, such as `get pods/log`.

    `cluster` selects the requests for objects of all namespaces and of none, instead of the requests in namespaces.
    """
    users = {f"system:serviceaccount:{namespace.name}:{account}" for namespace in namespaces}
    return {
        f"{event['verb']} {_resource(event['objectRef'])}"
        for event in _events(audit_log)
        if event["user"]["username"] in users
        and event["objectRef"].get("apiGroup") != OWN_PERMISSIONS
        and cluster is not ("namespace" in event["objectRef"])
    }


def _resource(reference: dict[str, str]) -> str:
    return "/".join(reference[part] for part in ("resource", "subresource") if part in reference)


def _events(audit_log: Path) -> Iterator[dict[str, Any]]:
    """Yield the requests for objects. The last line may be incomplete."""
    for line in audit_log.read_text().splitlines(keepends=True):
        if line.endswith("\n") and "objectRef" in (event := json.loads(line)):
            yield event
