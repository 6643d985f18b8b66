"""Runs of many seeds end, and replace their processes."""

from __future__ import annotations

import os

import pytest

from tests.lab.fleet import campaign


def process_of(_seed: int, _jobs: int | None) -> int:
    return os.getpid()


def test_processes_are_replaced_until_all_seeds_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "SEEDS_PER_PROCESS", 2)
    monkeypatch.setattr(campaign, "run_seed", process_of)
    processes = [int(str(it)) for it in campaign.run_seeds(range(1, 6), jobs=None, processes=1)]
    assert (len(processes), len(set(processes))) == (5, 3)
