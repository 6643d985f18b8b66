"""Metadata of this package for Airflow's providers manager."""

from __future__ import annotations

from typing import Any

from airflow_adaptive._airflow.internals import unsupported_airflow
from airflow_adaptive._core.scheduler.config.options import OPTIONS

INTEGRATION = "Adaptive Spark"


def get_provider_info() -> dict[str, Any]:
    """Return the metadata for the entry point `apache_airflow_provider`.

    The connections of the types `spark` and `kubernetes`, which the hooks also read, belong to other providers. With a version of Airflow that is
    too old, the provider offers nothing and its description names the remedy, because an exception here would end every command of Airflow.

    Source: Airflow's `provider_info.schema.json`.
    """
    names = {"package-name": "airflow-adaptive", "name": "Adaptive Spark"}
    if problem := unsupported_airflow():
        return {**names, "description": f"{problem}."}
    from airflow_adaptive._clusters.connection_form import connection_type  # noqa: PLC0415  The package requires a supported Airflow.

    return {
        **names,
        "description": "Adaptive scheduler for Spark Structured Streaming jobs.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["apache"]}],
        "operators": [
            _modules(
                "airflow_adaptive.operators.adaptive_spark",
                "airflow_adaptive.operators.job_control",
                "airflow_adaptive.operators.rescale_policy",
            )
        ],
        "sensors": [_modules("airflow_adaptive.sensors.spark_resources", "airflow_adaptive.sensors.adaptive_job")],
        "hooks": [_modules("airflow_adaptive.hooks.adaptive_spark", "airflow_adaptive.hooks.kubernetes")],
        "task-decorators": [
            {
                "name": "adaptive_spark",
                "class-name": "airflow_adaptive.decorators.adaptive_spark.adaptive_spark_task",
            }
        ],
        "connection-types": [connection_type()],
        "triggers": [
            _modules(
                "airflow_adaptive.triggers.adaptive_job",
                "airflow_adaptive.triggers.job_state",
                "airflow_adaptive.triggers.spark_resources",
            )
        ],
        "cli": ["airflow_adaptive._web.cli.definition.get_adaptive_cli_commands"],
        "config": {
            "adaptive": {
                "description": "Defaults of the options of adaptive jobs. The options of a task take precedence.",
                "options": _options(),
            }
        },
        "extra-links": [
            f"airflow_adaptive.links.spark.{link}"
            for link in (
                "SparkMasterLink",
                "SparkDriverLink",
                "SparkExecutorsLink",
                "SparkDriverOutputLink",
                "SparkDriverLogLink",
            )
        ],
    }


def _options() -> dict[str, dict[str, Any]]:
    return {
        option.name: {
            "description": option.doc,
            "version_added": "0.1.0",
            "type": "string",
            "example": None,
            "default": "" if option.default is None else str(option.default),
        }
        for option in OPTIONS.values()
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": INTEGRATION, "python-modules": list(names)}
