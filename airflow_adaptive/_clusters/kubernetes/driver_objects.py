"""Creates and deletes the objects of drivers.

Theory: a driver is created in this order: the pod, then the ConfigMap and the Secret, which the pod owns. The kubelet does not start a container
whose files or variables are missing, so a partial set never runs. A repeated submission completes the set; the submission of the next epoch
deletes the set. The garbage collector deletes what a deleted pod owns, including the executors, so the client deletes pods only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from airflow_adaptive._clusters.kubernetes.api import ApiError, KubernetesApi, NotSentError, RefusedError
from airflow_adaptive._clusters.kubernetes.driver.manifests import DriverManifests
from airflow_adaptive._clusters.kubernetes.driver.status import driver_status
from airflow_adaptive._clusters.kubernetes.job_pods import DRIVER, driver_identity
from airflow_adaptive._clusters.kubernetes.names import (
    JOB,
    MANAGED_BY,
    MANAGER,
    ROLE,
    DriverIdentity,
    Json,
    job_name,
)
from airflow_adaptive._core.ports import ClusterUnreachableError, NotSubmittedError, SubmissionRefusedError

log = logging.getLogger(__name__)

GRACE_S: Final = 5
"""Time in which a killed driver can end by itself."""

STRICT: Final = {"fieldValidation": "Strict"}
"""The API server refuses fields that it does not know, such as a misspelled field of a pod template."""


class DriverObjects:
    """The objects of drivers in one namespace."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api = api
        self._root = f"/api/v1/namespaces/{namespace}"
        self.nonces: dict[str, str] = {}
        """Job -> nonce of its journal, for `clean_up`."""

    async def create(self, manifests: DriverManifests) -> Json:
        """Create the objects of a driver, or those of them that are missing, and return the pod.

        Raises `NotSubmittedError`, `ClusterUnreachableError` (the pod may exist) or `SubmissionRefusedError`.
        """
        identity = manifests.identity
        self.nonces[identity.job] = identity.nonce
        pod, is_new = await self._create_pod(manifests)
        uid = str(pod["metadata"]["uid"])
        try:
            for collection, manifest in manifests.dependents(uid).items():
                await self._create_dependent(collection, manifest)
        except ApiError as error:
            if is_new and isinstance(error, NotSentError | RefusedError):
                await self.delete(identity.pod, uid)  # Without the part, no container of the pod has started.
                raise _not_created(identity.pod, error) from error
            raise ClusterUnreachableError(f"driver {identity.pod} is not complete: {error}") from error
        return pod

    async def delete(self, pod: str, uid: str) -> Json | None:
        """Delete a pod, and return its newest object; None if the pod does not exist. Raises `ClusterUnreachableError`."""
        options = {"gracePeriodSeconds": GRACE_S, "preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            return await self._api.request("DELETE", f"{self._root}/pods/{pod}", body=options)
        except RefusedError as error:
            if error.is_missing or error.is_conflict:  # A pod with another uid has the name.
                return None
            raise ClusterUnreachableError(f"pod {pod} cannot be deleted: {error}") from error
        except ApiError as error:
            raise ClusterUnreachableError(f"pod {pod} cannot be deleted now: {error}") from error

    async def delete_before(self, identity: DriverIdentity, *, ended: bool, running: bool = True) -> None:
        """Delete the drivers of earlier epochs. The scheduler starts an epoch only when no driver of an earlier epoch can run.

        Before a submission, others must not hold resources; `ended` also deletes drivers that have ended. Beside a standby, the driver of an earlier
        epoch is `running` and stays.
        """

        def selects(found: DriverIdentity, pod: Json) -> bool:
            is_earlier = found.nonce == identity.nonce and found.epoch < identity.epoch
            return is_earlier and (ended if _is_over(pod) else running)

        await self._delete_drivers(identity.job, selects)

    async def clean_up(self, job: str) -> None:
        """Delete the drivers of a job that have ended, and the other drivers of the journal that this process knows.

        Raises `ClusterUnreachableError`.
        """
        nonce = self.nonces.pop(job, None)
        await self._delete_drivers(job, lambda found, pod: _is_over(pod) or found.nonce == nonce)

    async def _delete_drivers(self, job: str, selects: Callable[[DriverIdentity, Json], bool]) -> None:
        """Delete the selected drivers of a job. Other pods with its labels stay."""
        selector = f"{MANAGED_BY}={MANAGER},{JOB}={job_name(job)},{ROLE}={DRIVER}"
        try:
            listed = await self._api.request("GET", f"{self._root}/pods", query={"labelSelector": selector})
        except ApiError as error:
            raise ClusterUnreachableError(f"the drivers of {job} cannot be listed: {error}") from error
        for pod in listed["items"]:
            identity = driver_identity(pod)
            if identity is not None and identity.job == job and selects(identity, pod):
                await self.delete(pod["metadata"]["name"], pod["metadata"]["uid"])

    async def _create_pod(self, manifests: DriverManifests) -> tuple[Json, bool]:
        """Create the pod of a driver. Return the pod, and whether this request has created it."""
        name = manifests.identity.pod
        try:
            return await self._api.request("POST", f"{self._root}/pods", query=STRICT, body=manifests.pod), True
        except RefusedError as error:
            if error.is_duplicate:
                return await self._existing(manifests.identity), False
            if error.is_conflict or error.is_over_quota:  # Other pods took the room while this one was created.
                raise NotSubmittedError(f"the API server did not create driver {name}: {error}") from error
            if error.is_missing:
                raise SubmissionRefusedError(
                    f"driver {name}: {error}: create the namespace, or correct `namespace` of the operator or of the connection"
                ) from error
            raise SubmissionRefusedError(f"the API server refuses driver {name}: {error}") from error
        except NotSentError as error:
            raise NotSubmittedError(str(error)) from error
        except ApiError as error:
            return await self._created_without_answer(manifests.identity, error), False

    async def _created_without_answer(self, identity: DriverIdentity, cause: ApiError) -> Json:
        """Return the pod of a request whose response was lost. Without its dependents, the pod would wait until its lease has expired."""
        try:
            return await self._existing(identity)
        except ClusterUnreachableError:
            message = f"the API server may have created driver {identity.pod}: {cause}"
            raise ClusterUnreachableError(message) from cause

    async def _existing(self, identity: DriverIdentity) -> Json:
        """Return the pod that has the name of a driver, if the pod is this driver."""
        try:
            pod = await self._api.request("GET", f"{self._root}/pods/{identity.pod}")
        except ApiError as error:
            raise ClusterUnreachableError(f"driver {identity.pod} exists, and cannot be read: {error}") from error
        annotations = pod["metadata"].get("annotations") or {}
        if any(annotations.get(name) != value for name, value in identity.annotations.items()):
            owner = annotations.get(JOB)
            raise SubmissionRefusedError(
                f"pod {identity.pod} exists and belongs to "
                + (f"job {owner!r} with another journal" if owner else "no adaptive job")
                + f", not to job {identity.job!r}: use another namespace, or another name of the job"
            )
        return pod

    async def _create_dependent(self, collection: str, manifest: Json) -> None:
        """Create an object that a pod owns. An object that exists may belong to a deleted pod of the same name, so it is replaced."""
        path = f"{self._root}/{collection}"
        try:
            await self._api.request("POST", path, body=manifest)
        except RefusedError as error:
            if not error.is_duplicate:
                raise
            await self._delete_dependent(f"{path}/{manifest['metadata']['name']}")
            await self._api.request("POST", path, body=manifest)

    async def _delete_dependent(self, path: str) -> None:
        try:
            await self._api.request("DELETE", path)
        except RefusedError as error:
            if not error.is_missing:
                raise


def _not_created(pod: str, error: NotSentError | RefusedError) -> NotSubmittedError | SubmissionRefusedError:
    """Return the error of a submission whose ConfigMap or Secret was not created."""
    if isinstance(error, NotSentError) or error.is_over_quota:
        return NotSubmittedError(f"the API server did not create a part of driver {pod}: {error}")
    return SubmissionRefusedError(f"the API server refuses a part of driver {pod}: {error}")


def _is_over(pod: Json) -> bool:
    return driver_status(pod).state.over
