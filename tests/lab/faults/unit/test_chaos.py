"""What `make lab TASK=chaos` does is known beforehand, and it tells what came of it."""

from __future__ import annotations

from tests.lab.faults.chaos import BREAKS, USER_REQUESTS, sequence


def test_same_seed_does_the_same() -> None:
    assert list(sequence(3, 10)) == list(sequence(3, 10))
    assert list(sequence(3, 10)) != list(sequence(4, 10))


def test_longer_chaos_begins_like_a_shorter_one() -> None:
    shorter = list(sequence(3, 2))
    assert shorter
    assert list(sequence(3, 10))[: len(shorter)] == shorter


def test_everything_is_done_sooner_or_later() -> None:
    assert {deed.name for deed in sequence(3, 120)} == {*BREAKS, *USER_REQUESTS}


def test_nothing_is_done_after_the_end() -> None:
    assert max(deed.at_s for deed in sequence(3, 2)) < 120
