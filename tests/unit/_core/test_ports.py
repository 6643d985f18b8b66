"""Resources: sums, differences, and how often a request fits."""

from __future__ import annotations

from itertools import combinations

import pytest

from airflow_adaptive._clusters.kubernetes.names import DriverIdentity
from airflow_adaptive._core.ports import JobKey, Resources

REQUEST = Resources(500, 100)


def test_resources_are_added_and_subtracted_by_dimension():
    assert Resources(1000, 250) + REQUEST == Resources(1500, 350)
    assert Resources(1000, 250) - REQUEST == Resources(500, 150)


@pytest.mark.parametrize(
    ("free", "count"),
    [
        (Resources(1000, 250), 2),
        (Resources(1000, 199), 1),
        (Resources(499, 1000), 0),
        (Resources(-1000, 1000), 0),
        (Resources(1000, -1), 0),
    ],
)
def test_request_fits_as_often_as_the_scarcest_dimension_allows(free: Resources, count: int):
    assert REQUEST.count_in(free) == count


DIFFERENT = (
    JobKey("eu"),
    JobKey("orders"),
    JobKey("journal"),
    JobKey("eu", "orders", "stream"),
    JobKey("eu", "clicks", "stream"),
    JobKey("eu", "orders", "other"),
    JobKey("stream.eu", "orders", "other"),
    JobKey("eu", "orders.stream", "a"),
    JobKey("eu", "orders", "stream.a"),
    JobKey("eu", "orders-stream", "a"),
    JobKey("eu", "orders", "journal"),
    JobKey("journal", "orders", "stream"),
    JobKey("eu", "d" * 250, "a"),
    JobKey("eu", "d" * 250, "b"),
    JobKey("eu", "größe", "a"),
)


def test_keys_are_read_back_from_their_names() -> None:
    assert [JobKey.parse(key.name) for key in DIFFERENT] == list(DIFFERENT)


def test_no_directory_of_a_job_is_inside_of_the_directory_of_another() -> None:
    for one, other in combinations([f"{key.folder}/" for key in DIFFERENT], 2):
        assert not one.startswith(other)
        assert not other.startswith(one)


def test_jobs_share_no_name_and_no_pods() -> None:
    assert len({key.name for key in DIFFERENT}) == len(DIFFERENT)
    assert len({DriverIdentity(key.name, 1, "n").pod for key in DIFFERENT}) == len(DIFFERENT)


def test_folder_is_readable_if_every_storage_accepts_it() -> None:
    assert JobKey("eu", "orders", "stream").folder == "orders~stream/eu"
    assert all(key.folder.isascii() and max(map(len, key.folder.split("/"))) <= 255 for key in DIFFERENT)


@pytest.mark.parametrize("job", ["", "..", "no/path", "a b", "a~b", "-x", "x" * 129])
def test_id_that_is_no_name_of_a_folder_has_no_directory(job: str) -> None:
    for key in (JobKey(job), JobKey(job, "orders", "stream")):
        with pytest.raises(ValueError, match="must match"):
            _ = key.folder
