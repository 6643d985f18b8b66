"""The observer of a job reports each violation of exactly-once processing."""

from __future__ import annotations

import pytest

from tests.lab.fleet.cluster.checkpoint import Batch, Head
from tests.lab.fleet.cluster.job_model import JobModel, WorkloadShape
from tests.lab.fleet.kernel.kernel import Kernel


@pytest.fixture
def model():
    """A job with 30 records, of which 20 are processed in two batches, and the first batch is committed."""
    found = JobModel(Kernel(), lambda text: None, "job", WorkloadShape(records=30))
    found.begin(Head(None, -1))
    found.write(Batch(0, 0, 10))
    found.commit(0)
    found.write(Batch(1, 10, 20))
    return found


def test_an_identical_replay_of_the_last_batch_violates_nothing(model):
    model.begin(Head(Batch(1, 10, 20), 0))
    model.write(Batch(1, 10, 20))
    model.commit(1)
    assert not model.is_complete
    model.write(Batch(2, 20, 30))
    assert not model.is_complete
    model.commit(2)
    assert model.is_complete
    assert model.violations == []


def test_late_notice_of_a_commit_that_the_next_query_has_found_violates_nothing(model):
    """The JVM was frozen after its commit, and continues while the next driver runs."""
    model.begin(Head(Batch(1, 10, 20), 1))
    model.write(Batch(2, 20, 30))
    model.commit(2)
    model.commit(1)
    assert (model.committed, model.violations) == (2, [])


@pytest.mark.parametrize(
    ("act", "violation"),
    [
        (lambda model: model.write(Batch(1, 10, 25)), "other records"),
        (lambda model: model.write(Batch(2, 21, 30)), "lost"),
        (lambda model: model.write(Batch(2, 19, 30)), "duplicated"),
        (lambda model: model.write(Batch(3, 20, 30)), "begins at record"),
        (lambda model: model.write(Batch(0, 0, 10)), "written again after its commit"),
        (lambda model: model.commit(2), "committed after batch 0"),
        (lambda model: model.commit(0), "committed after batch 0"),
        (lambda model: model.begin(Head(None, -1)), "went back"),
        (lambda model: model.begin(Head(Batch(0, 0, 10), 0)), "went back"),
        (lambda model: model.begin(Head(Batch(1, 10, 20), -1)), "went back"),
        (lambda model: model.begin(Head(Batch(2, 20, 30), 2)), "not in the sink"),
    ],
    ids=[
        "replay",
        "lost",
        "duplicated",
        "skipped",
        "rewritten",
        "order",
        "twice",
        "emptied",
        "rolled back",
        "uncommitted",
        "phantom",
    ],
)
def test_each_violation_is_reported(model, act, violation):
    act(model)
    assert any(violation in text for text in model.violations)
