"""Which slots go to which worker."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.allocator import (
    LoadBalanceMode,
    choose_slots,
    spread,
)
from airflow_adaptive._core.scheduler.events import SlotOffer

NONE, SLOTS, TASKS = LoadBalanceMode.NONE, LoadBalanceMode.SLOTS, LoadBalanceMode.TASKS


def free(*slots: int) -> tuple[SlotOffer, ...]:
    """Workers a, b, ... with so many free slots."""
    return offers(*((0, count) for count in slots))


def offers(*held_and_free: tuple[int, int]) -> tuple[SlotOffer, ...]:
    """Workers a, b, ... with so many slots."""
    return tuple(
        SlotOffer(worker=name, held=held, free=count)
        for name, (held, count) in zip("abcdefghijkl", held_and_free, strict=False)
    )


def load_of(loads: list[float], workers: tuple[SlotOffer, ...], mode: LoadBalanceMode = TASKS) -> dict[str, float]:
    """The load of each worker."""
    total: dict[str, float] = {}
    for load, worker in zip(loads, spread(loads, workers, mode), strict=True):
        total[worker] = total.get(worker, 0) + load
    return total


def used(loads: int, workers: tuple[SlotOffer, ...], mode: LoadBalanceMode) -> dict[str, int]:
    """The number of slots that are used on each worker."""
    chosen = choose_slots(workers, loads, mode)
    assert chosen is not None
    return dict(Counter(spread([1.0] * loads, chosen, mode)))


# ---- choosing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "wanted", "kept"),
    [
        ((1, 3), 3, {"b": 3}),
        ((3, 3, 2), 7, {"a": 3, "b": 3, "c": 1}),
        ((2, 1, 4), 4, {"c": 4}),
        ((2, 1, 4), 5, {"c": 4, "a": 1}),
        ((2, 2, 2), 2, {"a": 2}),
        ((2, 2), 4, {"a": 2, "b": 2}),
        ((4,), 1, {"a": 1}),
    ],
)
def test_job_that_shrinks_keeps_slots_on_the_fewest_workers(held: tuple[int, ...], wanted: int, kept: dict[str, int]):
    assert used(wanted, offers(*((count, 5) for count in held)), NONE) == kept


def test_job_that_shrinks_releases_slots_of_workers_that_end_soon_first():
    leaving, *others = offers((4, 0), (2, 0), (1, 0))
    assert used(3, (replace(leaving, accepts=False), *others), NONE) == {"b": 2, "c": 1}
    assert used(4, (replace(leaving, accepts=False), *others), NONE) == {"b": 2, "c": 1, "a": 1}


def test_equal_workers_are_kept_by_their_id():
    later, earlier = offers((2, 0), (2, 0))[::-1]
    assert used(2, (later, earlier), NONE) == {"a": 2}


def test_job_that_grows_keeps_what_it_holds_and_takes_free_slots_as_they_come():
    workers = offers((0, 2), (1, 2), (2, 2))
    assert used(6, workers, NONE) == {"a": 2, "b": 2, "c": 2}
    assert spread([1.0] * 6, choose_slots(workers, 6, NONE) or (), NONE) == ("b", "c", "c", "a", "a", "b")
    assert used(4, workers, NONE) == {"a": 1, "b": 1, "c": 2}


def test_job_that_stays_keeps_what_it_holds_in_its_order():
    workers = offers((1, 2), (2, 2))
    assert spread([1.0] * 3, choose_slots(workers, 3, NONE) or (), NONE) == ("a", "b", "b")


def test_offers_of_one_worker_are_taken_together():
    twice = (*offers((1, 1)), *offers((2, 3)))
    assert choose_slots(twice, 7, SLOTS) == (SlotOffer(worker="a", held=3, free=4),)
    assert choose_slots(twice, 8, SLOTS) is None


@pytest.mark.parametrize("mode", [SLOTS, TASKS])
def test_modes_that_spread_choose_among_all_slots(mode: LoadBalanceMode):
    workers = offers((2, 0), (0, 2))
    assert choose_slots(workers, 2, mode) == workers


# ---- spreading ------------------------------------------------------------------------------------------------------


def test_heaviest_slots_go_first():
    assert spread([1, 2, 3, 4, 5, 6, 7], free(3, 3, 3), TASKS) == ("a", "a", "b", "c", "c", "b", "a")


def test_slots_of_equal_load_go_in_their_order():
    assert spread([2, 3, 2, 3], free(2, 2), TASKS) == ("a", "a", "b", "b")


def test_worker_with_a_load_is_avoided_however_many_slots_it_has():
    assert spread([1], free(3, 1), TASKS, initial_load={"a": 1}) == ("b",)
    assert spread([1], free(3, 1), TASKS) == ("a",)


def test_slots_are_spread_by_the_share_of_each_worker_that_is_used():
    assert used(6, free(8, 4), SLOTS) == {"a": 4, "b": 2}
    assert used(7, free(3, 3, 3), SLOTS) == {"a": 3, "b": 2, "c": 2}
    assert spread([9, 1, 1], free(2, 4), SLOTS) == ("b", "a", "b")


@pytest.mark.parametrize("mode", [SLOTS, TASKS])
def test_equal_workers_go_by_held_slots_then_free_ones_then_id(mode: LoadBalanceMode):
    assert spread([1, 1], offers((0, 2), (0, 2)), mode) == ("a", "b")
    assert spread([1, 1], offers((0, 2), (0, 3)), mode)[0] == "b"
    assert spread([1, 1], offers((0, 9), (1, 0)), mode)[0] == "b"
    assert spread([1, 1], offers((1, 9), (2, 0)), mode)[0] == "b"
    assert spread([1, 1], offers((1, 2), (1, 3)), mode)[0] == "b"
    assert spread([1] * 4, offers((1, 1), (1, 1)), mode) == ("a", "b", "a", "b")


def test_worker_without_slots_gets_none():
    assert spread([1, 1], offers((0, 0), (0, 2)), TASKS) == ("b", "b")


# ---- what holds for any offers --------------------------------------------------------------------------------------

loads_of_slots = st.lists(st.integers(1, 9), min_size=1, max_size=25)
any_offers = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8).map(lambda o: offers(*o))


@given(loads=loads_of_slots, workers=any_offers)
def test_no_worker_took_a_slot_while_another_with_room_had_less_load(loads: list[int], workers):
    if choose_slots(workers, len(loads), TASKS) is None:
        return
    placed = spread(loads, workers, TASKS)
    load, slots = load_of([*loads], workers), Counter(placed)
    for worker, total in load.items():
        lightest = min(weight for weight, on in zip(loads, placed, strict=True) if on == worker)
        with_room = [w.worker for w in workers if slots[w.worker] < w.total]
        assert all(total - lightest <= load.get(other, 0) for other in with_room)


@given(count=st.integers(1, 25), workers=any_offers)
def test_no_worker_gave_a_slot_while_another_with_room_was_used_less(count: int, workers):
    if choose_slots(workers, count, SLOTS) is None:
        return
    slots = used(count, workers, SLOTS)
    with_room = [w for w in workers if slots.get(w.worker, 0) < w.total]
    for worker in (w for w in workers if w.worker in slots):
        before = (slots[worker.worker] - 1) / worker.total
        assert all(before <= slots.get(other.worker, 0) / other.total for other in with_room)


@given(count=st.integers(1, 25), workers=any_offers)
def test_without_balancing_held_slots_are_used_first_and_on_the_fewest_workers(count: int, workers):
    chosen = choose_slots(workers, count, NONE)
    if chosen is None:
        return
    held = sorted((worker.held for worker in workers), reverse=True)
    assert sum(worker.held for worker in chosen) == min(count, sum(held))
    assert sum(worker.total for worker in chosen) == count
    if count <= sum(held):
        assert sum(held[: len(chosen) - 1]) < count <= sum(held[: len(chosen)])


# ---- slots ----------------------------------------------------------------------------------------------------------
