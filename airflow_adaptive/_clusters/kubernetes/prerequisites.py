"""What a cluster must have before the first driver of a job starts: its version, and the permissions of the account."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api import ApiError, KubernetesApi, RefusedError, UnauthorizedError
from airflow_adaptive._clusters.kubernetes.names import Json
from airflow_adaptive._core.ports import ClusterRefusedError, ClusterUnreachableError

OLDEST: Final = (1, 27)
"""Older API servers do not refuse unknown fields (`fieldValidation=Strict`), so a misspelled field of a pod template would have no effect."""

PERMISSIONS: Final = (
    *(("pods", verb) for verb in ("create", "get", "list", "watch", "delete")),
    ("pods/log", "get"),
    *((resource, verb) for resource in ("configmaps", "secrets") for verb in ("create", "delete")),
)
"""Resources and verbs without which no job runs. The other verbs of the account determine how much of the capacity a job sees."""

_NUMBER: Final = re.compile(r"\d+")


class Prerequisites:
    """Checks a cluster once. A check that fails is repeated by the next job."""

    def __init__(self, api: KubernetesApi, address: KubernetesAddress) -> None:
        self._api = api
        self._address = address
        self._is_met = False

    async def check(self) -> None:
        """Check the version of the cluster and the permissions of the account.

        Raises `ClusterRefusedError`, which names what is missing and the remedy, or `ClusterUnreachableError`.
        """
        if self._is_met:
            return
        try:
            await self._check_version()
            await self._check_permissions()
        except UnauthorizedError as error:
            raise ClusterRefusedError(str(error)) from error
        except ApiError as error:
            raise ClusterUnreachableError(str(error)) from error
        self._is_met = True

    async def _check_version(self) -> None:
        try:
            found = await self._api.request("GET", "/version")
        except RefusedError:  # A cluster can hide its version.
            return
        numbers = [_NUMBER.match(str(found.get(part, ""))) for part in ("major", "minor")]
        version = tuple(int(number[0]) for number in numbers if number is not None)
        if version < OLDEST and len(version) == len(OLDEST):
            oldest = ".".join(map(str, OLDEST))
            raise ClusterRefusedError(
                f"{self._address.server} has Kubernetes {found.get('gitVersion')}: upgrade the cluster to {oldest} or later, because "
                "older versions ignore unknown fields of pod templates"
            )

    async def _check_permissions(self) -> None:
        allowed = await asyncio.gather(*(self._is_allowed(*permission) for permission in PERMISSIONS))
        missing = [
            f"{verb} {name}" for (name, verb), is_allowed in zip(PERMISSIONS, allowed, strict=True) if not is_allowed
        ]
        if missing:
            namespace = self._address.namespace
            raise ClusterRefusedError(
                f"{await self._account()} may not {', '.join(missing)} in namespace {namespace!r} of {self._address.server}: bind the Role "
                "of docs/kubernetes/airflow-account.yaml to it in this namespace, and check that the namespace exists"
            )

    async def _is_allowed(self, resource: str, verb: str) -> bool:
        name, _, subresource = resource.partition("/")
        attributes = {"namespace": self._address.namespace, "verb": verb, "resource": name, "subresource": subresource}
        review = await self._review("authorization", "SelfSubjectAccessReview", {"resourceAttributes": attributes})
        return review is None or bool(review.get("allowed"))

    async def _account(self) -> str:
        """Return the user of the credentials. API servers before Kubernetes 1.28 do not tell."""
        review = await self._review("authentication", "SelfSubjectReview", {})
        name = ((review or {}).get("userInfo") or {}).get("username")
        return f"the user {name!r}" if name else "the account of Airflow"

    async def _review(self, group: str, kind: str, spec: Json) -> Json | None:
        """Return what the API server knows about the own account, None if it does not tell."""
        body = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        try:
            answer = await self._api.request("POST", f"/apis/{group}.k8s.io/v1/{kind.lower()}s", body=body)
        except RefusedError:
            return None
        status: Json = answer.get("status") or {}
        return status
