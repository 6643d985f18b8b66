"""What a driver is submitted with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive.runtime.command_executor import submission
from airflow_adaptive.scheduler.commands import SubmitDriver
from airflow_adaptive.testing.simulation.one_job import Simulation


@pytest.mark.parametrize(("conf", "level"), [({}, "WARN"), ({"spark.log.level": "INFO"}, "INFO")])
def test_driver_logs_warnings_only_unless_its_author_wants_more(conf: dict[str, str], level: str) -> None:
    spec = replace(Simulation().spec, conf=conf)
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    assert submission(command, spec, "nonce").conf["spark.log.level"] == level


PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.parametrize(
    ("conf", "provider"), [({}, "RocksDBStateStoreProvider"), ({PROVIDER: "my.Provider"}, "my.Provider")]
)
def test_new_state_can_be_repartitioned_unless_its_author_keeps_it_elsewhere(
    conf: dict[str, str], provider: str
) -> None:
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    submitted = submission(command, replace(Simulation().spec, conf=conf), "nonce").conf
    assert submitted[PROVIDER].endswith(provider)


def test_templates_reach_the_cluster_manager() -> None:
    command = SubmitDriver(epoch=1, slots=1, cause="SlotsChanged")
    spec = replace(Simulation().spec, driver_template='{"a": 1}', executor_template='{"b": 2}')
    submitted = submission(command, spec, "nonce")
    assert (submitted.driver_template, submitted.executor_template) == ('{"a": 1}', '{"b": 2}')
