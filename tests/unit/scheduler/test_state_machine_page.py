"""docs/state-machine.md says what the code does."""

import re
from pathlib import Path

from airflow_adaptive.scheduler.config.options import OPTIONS
from airflow_adaptive.scheduler.transition_table import STATES, as_mermaid
from airflow_adaptive.testing.scenario import Scenario

PAGE = (Path(__file__).parents[3] / "docs" / "state-machine.md").read_text()


def test_diagram_is_the_tables():
    drawn = re.search(r"<!-- transitions.*?-->\n```mermaid\n(.*?)\n```\n<!-- /transitions -->", PAGE, re.DOTALL)
    assert drawn is not None
    assert drawn[1] == as_mermaid()


def test_every_state_is_explained_in_the_order_of_a_jobs_life():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [state.__name__ for state in STATES]


def test_options_that_are_named_exist():
    assert set(re.findall(r"`([a-z]+_[a-z_]+)`", PAGE)) <= set(OPTIONS)


def test_worker_that_dies_is_survived_as_told():
    job = Scenario(lower=1, upper=4).given_executing(4).when_slots(held=2, free=1)
    assert job.path[-3:] == ["RestartingLocally", "Restarting", "Deploying"]
    job.after(3).when_in_force().then("Deploying", reason="2 of 3 slot(s)").then_parallelism(3)
    job.after(2).when_slots(held=3).then("Executing")
    job.after(114).when_slots(held=3, free=2).then("Executing").when_committed().then("Deploying").then_parallelism(4)
    assert job.state.restarts.attempts == 0
