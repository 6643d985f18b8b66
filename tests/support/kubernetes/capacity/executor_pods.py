"""Pods of the size of executors, and the calculated numbers of executors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow_adaptive._core.ports import Limit, Request, Worker
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.api import ApiError, Json, KubernetesApi
from tests.support.kubernetes.namespace import Namespace, created_namespace

PLENTY = 10**6


REFUSED = (403, 422)
"""Status of a pod that a quota, a limit range, or the validation of its defaults refuses."""


@contextmanager
def namespace_without_kubelets(api: KubernetesApi) -> Iterator[Namespace]:
    """A namespace whose pods the test deletes by force, because no kubelet ends them."""
    with created_namespace(api) as created:
        try:
            yield created
        finally:
            for pod in created.pods():
                api.delete(created.path("pods", pod["metadata"]["name"]), grace_period_s=0)


def fitting(workers: Iterable[Worker], planned: Request) -> int:
    """Return the number of drivers or executors for which the workers have room."""
    return sum(
        min(
            worker.free.cpu_millicores // planned.cpu_millicores,
            worker.free.memory_bytes // planned.memory_bytes,
            PLENTY if worker.count is None else worker.count,
        )
        for worker in workers
        if worker.accepts(planned.placement)
    )


def allowed(limits: Iterable[Limit], planned: Request) -> int:
    """Return the number of drivers or executors that the limits allow."""
    counts = [PLENTY]
    for limit in limits:
        charge = limit.charge(planned)
        if charge is not None:
            rooms = [
                (limit.cpu_millicores, charge.cpu_millicores),
                (limit.memory_bytes, charge.memory_bytes),
                (limit.count, 1),
            ]
            counts += [room // taken for room, taken in rooms if room is not None and taken]
    return min(counts)


def create_pods(team: Namespace, planned: Request, count: int, prefix: str = "executor") -> int:
    """Create pods until one is refused, and return the number of created pods."""
    spec = json.loads(planned.placement)
    affinity = spec.pop("requiredNodeAffinity", None)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": affinity}
    manifest: dict[str, Any] = {**spec, "affinity": {"nodeAffinity": required} if affinity else {}}
    for field in ("containers", "initContainers"):
        manifest[field] = [{**each, "image": "none"} for each in manifest.get(field, ())]
    for index in range(count):
        try:
            team.create("Pod", f"{prefix}-{index}", {"spec": manifest})
        except ApiError as error:
            if error.status not in REFUSED:
                raise
            return index
    return count


def bound(team: Namespace) -> int:
    """Wait until the scheduler has decided about all pods of a namespace, and return how many have a node."""

    def decided() -> list[Json] | None:
        pods = team.pods()
        return pods if all(_is_decided(pod) for pod in pods) else None

    return sum("nodeName" in pod["spec"] for pod in wait_until(decided, 180, "decisions of the scheduler"))


def _is_decided(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return "nodeName" in pod["spec"] or any(each["type"] == "PodScheduled" for each in conditions)
