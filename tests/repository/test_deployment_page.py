"""docs/deployment: all services of Docker Compose run the image with the provider, and share the job directory."""

from __future__ import annotations

import yaml

from tests.support.repository import ROOT

COMPOSE = ROOT / "docs" / "deployment" / "docker-compose.override.yaml"
SERVICES = {"apiserver", "scheduler", "dag-processor", "worker", "triggerer", "init", "cli"}
"""Services of Airflow in the docker-compose.yaml of its documentation."""


def test_all_services_of_compose_have_the_same_image_and_the_job_directory() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert set(services) == {f"airflow-{name}" for name in SERVICES}
    for service in services.values():
        assert service == {"build": ".", "image": "airflow-with-adaptive", "volumes": ["jobs:/jobs"]}
