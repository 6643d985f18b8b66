"""Finds the example DAGs that the demo runs."""

from __future__ import annotations

from pathlib import Path


def example_dags(package: Path) -> Path:
    """Return the folder of the example DAGs.

    A wheel contains the examples inside the package. In a clone, and in an editable installation of a clone, the
    examples are in the folder `dags` beside the package.

    Args:
        package: folder of the package `airflow_adaptive`.

    Raises:
        FileNotFoundError: neither folder exists.
    """
    for folder in (package / "example_dags", package.parent / "dags"):
        if (folder / "flight_departures.py").is_file():
            return folder
    raise FileNotFoundError(
        f"the example DAGs are neither in {package / 'example_dags'} nor in {package.parent / 'dags'}"
    )
