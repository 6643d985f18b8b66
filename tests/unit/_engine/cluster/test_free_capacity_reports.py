"""Reports of the limit that keeps a job from more slots."""

from __future__ import annotations

from airflow_adaptive._core.ports import LimitKind
from airflow_adaptive._engine.cluster.free_capacity import Shortage, ShortageReports, not_accepted, remedy


def quota(allowed_mib: str = "1,900", name: str = "team-a") -> Shortage:
    return Shortage(LimitKind.QUOTA, name, f"quota `{name}` allows {allowed_mib} MiB more")


def texts(*observed: tuple[Shortage | None, int]) -> list[str | None]:
    reports = ShortageReports()
    reasons = [reports.reason(shortage, slots) for shortage, slots in observed]
    return [None if reason is None else reason.text for reason in reasons]


def test_report_names_the_slots_and_the_limit() -> None:
    assert texts((quota(), 2)) == ["2 slots: quota `team-a` allows 1,900 MiB more"]
    assert texts((quota(), 1)) == ["1 slot: quota `team-a` allows 1,900 MiB more"]


def test_shortage_is_reported_once_although_its_amounts_change() -> None:
    assert texts((quota(), 2), (quota("700"), 2))[1] is None


def test_other_limit_and_other_slots_are_reported() -> None:
    assert texts((quota(), 2), (quota(name="team-b"), 2))[1] == "2 slots: quota `team-b` allows 1,900 MiB more"
    assert texts((quota(), 2), (quota(), 3))[1] == "3 slots: quota `team-a` allows 1,900 MiB more"


def test_shortage_is_reported_again_after_its_end() -> None:
    assert texts((quota(), 2), (None, 2), (quota(), 2)) == [texts((quota(), 2))[0], None, texts((quota(), 2))[0]]


def test_the_remedy_for_workers_that_accept_no_driver_is_not_another_worker() -> None:
    text = remedy(not_accepted(is_of_driver=True))
    assert text.startswith(
        "no worker is ready that accepts the driver: see its node selector, tolerations and node affinity: correct them"
    )
    assert "add workers" not in text
    assert texts((not_accepted(is_of_driver=False), 0)) == [
        "0 slots: no worker is ready that accepts an executor: see its node selector, tolerations and node affinity"
    ]
