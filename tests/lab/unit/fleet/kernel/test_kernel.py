"""Events, threads, queues and processes run in order in virtual time, freeze, die, and report errors."""

from __future__ import annotations

import asyncio
import gc
from datetime import timedelta

import pytest

from tests.lab.fleet.kernel.entropy import Entropy
from tests.lab.fleet.kernel.event_loop import SimulatedEventLoop
from tests.lab.fleet.kernel.kernel import BlockedEventLoopError, Kernel
from tests.lab.fleet.kernel.process import START, SimulatedProcess
from tests.lab.fleet.kernel.threads import DEFAULT_THREADS, SimulatedQueue, SimulatedThread


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def process(kernel):
    return SimulatedProcess(kernel, "triggerer-1")


def start(process, coroutine):
    """Run a coroutine in an event loop of the process."""
    loop = SimulatedEventLoop(process)  # type: ignore[abstract]  # it has no methods for networks
    tasks = []
    process.soon(lambda: tasks.append(loop.create_task(coroutine)))
    return loop, tasks


def test_events_run_by_time_and_then_in_the_order_of_their_planning(kernel):
    order = []
    for name, when in (("late", 2), ("first", 1), ("second", 1)):
        kernel.at(when, lambda name=name: order.append((kernel.now, name)))
    kernel.run(until=10)
    assert order == [(1, "first"), (1, "second"), (2, "late")]
    assert kernel.now == 10


def test_the_check_runs_after_each_event_and_a_canceled_event_does_not_run(kernel):
    checks = []
    kernel.at(1, lambda: None)
    kernel.at(2, lambda: pytest.fail("canceled")).cancel()
    kernel.run(until=3, check=lambda: checks.append(kernel.now))
    assert checks == [1]


def test_a_frozen_process_does_everything_late_and_in_order(kernel, process):
    order = []
    for second in (1, 2, 3, 8):
        process.at(second, lambda second=second: order.append((second, kernel.now)))
    kernel.at(1.5, process.freeze)
    kernel.at(5, process.resume)
    kernel.run(until=10)
    assert order == [(1, 1), (2, 5), (3, 5), (8, 8)]


def test_a_killed_process_does_nothing_more(kernel, process):
    order = []
    process.at(1, lambda: order.append(1))
    process.at(3, lambda: order.append(3))
    kernel.at(2, process.kill)
    kernel.run(until=5)
    assert order == [1]


def test_a_killed_process_runs_no_event_that_was_postponed_while_it_was_frozen(kernel, process):
    process.at(2, lambda: pytest.fail("the process is dead"))
    kernel.at(1, process.freeze)
    kernel.at(3, process.kill)
    kernel.at(4, process.resume)
    kernel.run(until=5)


def test_the_clocks_of_a_host_drift_and_step(kernel):
    process = SimulatedProcess(kernel, "fast", drift=0.1, wall_offset=timedelta(hours=1))
    kernel.run(until=100)
    assert process.elapsed() == pytest.approx(110)
    assert process.wall_time() == START + timedelta(hours=1, seconds=process.elapsed())
    due = []
    process.at(120, lambda: due.append(kernel.now))
    kernel.run(until=200)
    assert due == [pytest.approx(120 / 1.1)]


def test_coroutines_sleep_and_time_out_in_virtual_time(kernel, process):
    async def act():
        await asyncio.sleep(3600)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    _, tasks = start(process, act())
    kernel.run(until=7200)
    assert tasks[0].result() == 3660


def test_a_thread_blocks_in_virtual_time_and_belongs_to_its_process(kernel, process):
    seen = []

    def act():
        kernel.sleep(5)
        seen.append((kernel.now, kernel.process))

    process.at(1, SimulatedThread(kernel, act).start)
    kernel.run(until=10)
    assert seen == [(6, process)]


def test_a_blocking_call_in_the_event_loop_is_an_error(kernel, process):
    async def act():
        kernel.sleep(1)

    _, tasks = start(process, act())
    kernel.run(until=10)
    assert isinstance(tasks[0].exception(), BlockedEventLoopError)


def test_readers_of_a_queue_wait_for_items_in_their_order(kernel, process):
    queue: SimulatedQueue[str] = SimulatedQueue(kernel)
    seen = []
    for reader in ("a", "b"):
        process.at(1, SimulatedThread(kernel, lambda reader=reader: seen.append((reader, queue.get()))).start)
    for second, item in ((2, "x"), (3, "y")):
        kernel.at(second, lambda item=item: queue.put(item))
    kernel.run(until=10)
    assert seen == [("a", "x"), ("b", "y")]


def test_calls_that_hang_use_up_the_default_executor(kernel, process):
    async def act():
        hanging = [asyncio.create_task(asyncio.to_thread(kernel.hang)) for _ in range(DEFAULT_THREADS - 1)]
        first = await asyncio.to_thread(lambda: "answer")
        hanging.append(asyncio.create_task(asyncio.to_thread(kernel.hang)))
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(lambda: "answer"), 60)
        return first

    _, tasks = start(process, act())
    kernel.run(until=100)
    assert tasks[0].result() == "answer"


def test_an_error_in_the_default_executor_reaches_its_caller(kernel, process):
    async def act():
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    _, tasks = start(process, act())
    kernel.run(until=1)
    assert tasks[0].result() is None


def test_an_exception_that_no_code_awaits_is_recorded(kernel, process):
    loop, _ = start(process, asyncio.sleep(0))
    process.soon(lambda: loop.call_soon(lambda: 1 / 0))
    kernel.run(until=1)
    assert [type(context["exception"]) for context in loop.failures] == [ZeroDivisionError]


def test_the_random_values_of_one_purpose_do_not_depend_on_those_of_another():
    alone, beside = Entropy(1), Entropy(1)
    beside.random("latency").random()
    assert alone.random("faults").random() == beside.random("faults").random()
    assert alone.random("faults").random() != Entropy(1).random("faults").random()
    assert Entropy(1).bytes(16) == Entropy(1).bytes(16) != Entropy(2).bytes(16)


def test_a_thread_of_a_killed_process_executes_nothing_more_when_it_is_forgotten(kernel, process):
    order = []

    def run():
        try:
            kernel.sleep(5)
        finally:
            order.append("finally")

    process.soon(lambda: kernel.start_thread(run))
    kernel.at(1, process.kill)
    kernel.run(until=10)
    gc.collect()
    assert order == []
