"""The benchmark of the list of jobs measures each list, and compares the slowest requests with the target."""

from tests.lab.benchmarks.job_list import LISTS, TARGET_MS, WARM_UP, measure, table


def test_each_list_is_measured_after_the_caches_are_full():
    limits: list[int] = []

    def list_jobs(limit: int) -> int:
        limits.append(limit)
        return 2048

    found = measure(list_jobs, runs=5)
    assert limits == [limit for limit in LISTS.values() for _ in range(WARM_UP + 5)]
    assert [(len(times), size) for times, size in found.values()] == [(5, 2048)] * len(LISTS)


def test_target_applies_to_the_slowest_requests():
    rare, frequent = ([1.0] * fast + [TARGET_MS + 1.0] * (100 - fast) for fast in (96, 95))
    rows = table({"rare": (rare, 1024), "frequent": (frequent, 2048)})
    assert rows[2:] == ["| rare | 1 | 1 | 1 | met |", "| frequent | 2 | 1 | 151 | **not met** |"]
