"""The product in virtual time: clocks, identifiers and coroutines of workers, and the same history for the same seed."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from airflow_adaptive._engine.clock import SystemClock
from tests.lab.fleet import seams
from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.process import START, SimulatedProcess
from tests.support.repository import ROOT


def run(process, act, until=100.0):
    results = []
    process.soon(lambda: process.kernel.start_thread(lambda: results.append(act())))
    process.kernel.run(until=until)
    return results


def test_the_clock_of_the_product_is_the_clock_of_the_current_process():
    kernel = Kernel()
    process = SimulatedProcess(kernel, "fast", drift=0.5, wall_offset=timedelta(hours=1))
    with seams.installed(kernel, Entropy(1)):
        clocks = []
        process.at(30.0, lambda: clocks.append(SystemClock()))
        kernel.run(until=40)
        assert clocks[0].elapsed == kernel.now == 40
        [[now, elapsed]] = run(process, lambda: [clocks[0].now(), clocks[0].elapsed])
    assert elapsed == 60
    assert now == START + timedelta(hours=1, seconds=60)
    assert now.tzinfo is UTC


def test_identifiers_depend_on_the_seed_only():
    def identifier(seed):
        with seams.installed(Kernel(), Entropy(seed)):
            return uuid4()

    assert identifier(1) == identifier(1) != identifier(2)


def test_a_worker_runs_coroutines_in_virtual_time():
    kernel = Kernel()

    async def sleep():
        await asyncio.sleep(50)
        return kernel.now

    with seams.installed(kernel, Entropy(1)):
        assert run(SimulatedProcess(kernel, "worker"), lambda: asyncio.run(sleep())) == [50]


def fail():
    with seams.installed(Kernel(), Entropy(1)):
        assert not gc.isenabled()
        assert not logging.getLogger().isEnabledFor(logging.CRITICAL)
        raise LookupError


def test_the_machine_returns_after_the_simulation():
    with pytest.raises(LookupError):
        fail()
    assert gc.isenabled()
    assert logging.getLogger().isEnabledFor(logging.CRITICAL)
    assert abs(SystemClock().now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert os.urandom(8) != os.urandom(8)
    assert asyncio.run(asyncio.sleep(0, "real")) == "real"


SCRIPT = """
from tests.support.fleet.small_fleet import SmallFleet
fleet = SmallFleet(seed=5)
with fleet.installed():
    fleet.start("triggerer-1", "triggerer-2")
    fleet.run(60)
    fleet.request("job-1", "suspended")
    fleet.storage.faults.lose_responses(share=0.5)
    fleet.airflow.api.faults.fail(share=0.2)
    fleet.run(60)
    fleet.process("triggerer-1").kill()
    fleet.run(60)
print(*fleet.history, sep="\\n")
"""


def test_the_same_seed_gives_the_same_history_in_every_interpreter():
    def history(hash_seed):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout

    first = history("1")
    assert len(first.splitlines()) > 100
    assert history("2") == first
