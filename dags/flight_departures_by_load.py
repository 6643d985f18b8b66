"""Runs the job of `flight_departures` with a rescale policy: a calendar sets the bounds, and the load determines the parallelism within."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_adaptive.autoscaling import CombinedPolicy, LoadPolicy, period, scheduled_policy, window
from airflow_adaptive.operators import AdaptiveSparkOperator

POLICY = CombinedPolicy(
    calendar=scheduled_policy(
        zone="America/New_York",
        windows=[
            # The morning departures are known in advance, so two slots are available before the first batch becomes slow.
            window("working day", (2, 4), weekdays="mon-fri", start="06:00", end="21:30", holidays="never"),
            # The monthly report reads the newest hours, so the job must not rescale during that time.
            window("closing of the month", (3, 4), cron="0 22 l * *", duration="4 h", priority=1),
        ],
        default=(1, 3),
        excluded=[period("settlement", cron="45 23 l * *", duration="1 h")],
        holidays=["2026-05-25", "2026-07-04", "2026-09-07", "2026-11-26", "2026-12-25", "2027-01-01"],
    ),
    load=LoadPolicy(target=0.7, down_delay=timedelta(minutes=10)),
)

with DAG(
    dag_id="flight_departures_by_load",
    description=__doc__,
    schedule=None,
    params={
        "directory": Param(
            "/tmp/flight_departures_by_load", type="string", description="directory of input, output and job"
        )
    },
    tags=["airflow-adaptive", "example"],
):
    AdaptiveSparkOperator(
        task_id="departures",
        job="flight_departures_by_load",
        application=f"{Path(__file__).parent}/jobs/flight_departures.py",
        application_args=[
            "--input={{ params.directory }}/input",
            "--output={{ params.directory }}/output",
            "--interval=10 seconds",
        ],
        job_directory="file://{{ params.directory }}/jobs",
        parallelism=(1, 4),
        rescale_policy=POLICY,
        driver_memory="512m",
        executor_memory="512m",
    )
