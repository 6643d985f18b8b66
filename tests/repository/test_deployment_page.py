"""docs/guides/platforms: each guide ends with a check, and says whether it was run."""

from __future__ import annotations

import yaml

from tests.support.repository import ROOT

GUIDES = [page for page in (ROOT / "docs" / "guides" / "platforms").glob("*.md") if page.stem != "index"]
COMPOSE = ROOT / "docs" / "deployment" / "docker-compose.override.yaml"
SERVICES = {"apiserver", "scheduler", "dag-processor", "worker", "triggerer", "init", "cli"}
"""Services of Airflow in the docker-compose.yaml of its documentation."""


def test_every_guide_says_whether_it_was_run_and_ends_with_the_check() -> None:
    assert len(GUIDES) == 5
    for guide in GUIDES:
        assert "Not run:" in guide.read_text()
        assert guide.read_text().strip().rsplit("\n\n", 1)[1].startswith("Run the check")


def test_all_services_of_compose_have_the_same_image_and_the_job_directory() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert set(services) == {f"airflow-{name}" for name in SERVICES}
    for service in services.values():
        assert service == {"build": ".", "image": "airflow-with-adaptive", "volumes": ["jobs:/jobs"]}
