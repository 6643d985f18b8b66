"""Airflow operators, and the factory of DAGs that apply a rescale policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_adaptive._airflow.internals import require_airflow
from airflow_adaptive._core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator as AdaptiveSparkOperator
    from airflow_adaptive.operators.job_control import (
        SetResourceRequirementsOperator as SetResourceRequirementsOperator,
    )
    from airflow_adaptive.operators.job_control import StopAdaptiveJobOperator as StopAdaptiveJobOperator
    from airflow_adaptive.operators.rescale_policy import ApplyRescalePolicyOperator as ApplyRescalePolicyOperator
    from airflow_adaptive.operators.rescale_policy import rescale_policy_dag as rescale_policy_dag

require_airflow()

__all__, __getattr__ = lazy_exports(__name__, __file__)
