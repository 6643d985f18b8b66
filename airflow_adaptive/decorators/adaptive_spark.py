"""The task decorator `@task.adaptive_spark`, for the function that builds the queries of a job, in the DAG file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import attrs
from airflow.sdk import XComArg

from airflow_adaptive._airflow.declaration import validation
from airflow_adaptive._airflow.declaration.function_script import PARAMETERS, FunctionScript
from airflow_adaptive._airflow.declaration.job_assets import arguments_of_items, name_fleet
from airflow_adaptive._airflow.declaration.validation import DeclarationError
from airflow_adaptive._airflow.internals import KNOWN_CONTEXT_KEYS, DecoratedOperator, TaskDecorator, _TaskDecorator
from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator

if TYPE_CHECKING:
    from airflow_adaptive._airflow.declaration.placement import RunningJob
    from airflow_adaptive._airflow.internals import ExpandInput, MappedOperator
    from airflow_adaptive._core.view import TaskKey
    from airflow_adaptive._engine.spec import JobSpec

JOB = "job"
"""Parameter of the function that receives the id of the job. The call in the DAG, or each item of a mapped task, then determines the id."""


class AdaptiveSparkDecoratedOperator(DecoratedOperator, AdaptiveSparkOperator):
    """Run the job whose queries a function of the DAG file builds.

    The operator stages a script with the source of the function and the imports that the function uses.

    Args:
        python_callable: the build function (docs/reference/scripts.md). Its first parameters are `spark` and `parallelism`.
        op_args: positional arguments of the call in the DAG; must be empty.
        op_kwargs: other arguments of the function, as JSON values without secrets. (templated)
        kwargs: the parameters of `AdaptiveSparkOperator`, without `application`.

    Raises:
        DeclarationError: the function cannot run in the driver. The message lists all violations.
        TypeError: the arguments do not fit the function.

    Source: Airflow's `@task.pyspark`.
    """

    custom_operator_name = "@task.adaptive_spark"

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *(field for field in AdaptiveSparkOperator.template_fields if field != "application"),
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **AdaptiveSparkOperator.template_fields_renderers,
    }

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] = (),
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        named = dict(op_kwargs or {})
        self._script = FunctionScript.of(python_callable)
        _require_arguments(python_callable, op_args, named, kwargs)
        if JOB in inspect.signature(python_callable).parameters:
            kwargs[JOB] = named.get(JOB)
        super().__init__(
            python_callable=python_callable,
            op_args=op_args,
            op_kwargs=named,
            application=self._script.file_name,
            **kwargs,
        )
        if self._declared.is_batch:
            raise DeclarationError(
                [f"job {self.job!r} is a batch, and a function builds streaming queries: use @task.pyspark"]
            )

    def check(self) -> None:
        """See `AdaptiveSparkOperator.check`."""
        with self._script_file(self._text()):
            super().check()

    def _spec(self, attempt: str, task: TaskKey, running: RunningJob | None = None) -> JobSpec:
        """Stage the job with the script of the function."""
        with validation.airflow_errors(self.job):
            text = self._text()
        with self._script_file(text):
            return super()._spec(attempt, task, running)

    def _text(self) -> str:
        """Return the script. Raises `DeclarationError`."""
        validation.no_secrets(not_secret=self.not_secret, op_kwargs=self.op_kwargs)
        return self._script.text(self.op_kwargs)

    @contextmanager
    def _script_file(self, text: str) -> Iterator[None]:
        """Let the application be a file with the script."""
        name = self.application
        with TemporaryDirectory(prefix="adaptive-spark-") as folder:
            file = Path(folder) / name
            file.write_text(text, encoding="utf-8")
            self.application = str(file)
            try:
                yield
            finally:
                self.application = name


@attrs.define(slots=False)
class AdaptiveSparkTask(_TaskDecorator[Any, Any, AdaptiveSparkDecoratedOperator]):
    """A decorated function. A call adds a task to the DAG; `expand` and `expand_kwargs` add a mapped task, which runs a fleet of jobs."""

    def __attrs_post_init__(self) -> None:
        """Reject a function that cannot run in the driver, while Airflow parses the DAG."""
        FunctionScript.of(self.function)
        _leave_to_driver(self.function)
        super().__attrs_post_init__()  # type: ignore[no-untyped-call]

    def _validate_arg_names(self, func: Literal["expand", "partial"], kwargs: dict[str, Any]) -> None:
        if JOB in kwargs:
            self._require_job_parameter()
        super()._validate_arg_names(func, kwargs)

    def _expand(self, expand_input: ExpandInput, *, strict: bool) -> XComArg:
        """Add the Assets of a fleet to the mapped task."""
        self._require_job_parameter()
        task: MappedOperator = super()._expand(expand_input, strict=strict).operator  # type: ignore[attr-defined]
        items = expand_input.value
        mapped, jobs = (items, items.get(JOB)) if isinstance(items, Mapping) else arguments_of_items(items)
        name_fleet(task.task_id, task.dag, task.partial_kwargs, mapped, jobs)
        return XComArg(task)

    def _require_job_parameter(self) -> None:
        """Raise `TypeError` if all items of a mapped task would run the same job."""
        if JOB in self.kwargs or JOB not in self.function_signature.parameters:
            raise validation.wrong_arguments(
                f"each item of a mapped function needs a job of its own: declare `def {self.function.__name__}(spark, parallelism, job, ...)`, "
                "leave 'job' out of the decorator, and call expand(job=[...]) or expand_kwargs([{'job': ...}, ...])"
            )


def adaptive_spark_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """Turn the function that builds the queries of a job into a task that runs the job. Airflow's name is `@task.adaptive_spark`.

    Args:
        python_callable: the function; Airflow passes it.
        multiple_outputs: whether each entry of the task's result becomes an XCom of its own.
        kwargs: the parameters of `AdaptiveSparkOperator`, without `application`.
    """

    def decorate(function: Callable[..., Any]) -> AdaptiveSparkTask:
        return AdaptiveSparkTask(
            function=function,
            operator_class=AdaptiveSparkDecoratedOperator,
            multiple_outputs=bool(multiple_outputs),
            kwargs=kwargs,
        )

    return cast(TaskDecorator, decorate if python_callable is None else decorate(python_callable))


def _require_arguments(
    function: Callable[..., Any], positional: Collection[Any], named: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    """Raise `TypeError` if the call contains what the driver or the decorator passes, or lacks what only a task has."""
    name, declared = function.__name__, inspect.signature(function).parameters
    if "application" in parameters:
        raise validation.wrong_arguments(
            f"the function {name!r} is the application: leave the parameter 'application' out"
        )
    if JOB in declared and JOB in parameters:
        raise validation.wrong_arguments(
            f"the parameter 'job' of function {name!r} is the id of the job: pass it in the call only"
        )
    if positional or not named.keys().isdisjoint(PARAMETERS):
        raise validation.wrong_arguments(
            f"call {name!r} with keyword arguments only, because the driver passes {' and '.join(PARAMETERS)}"
        )
    missing = [key for key in declared if key in KNOWN_CONTEXT_KEYS and key not in named]
    if missing:
        raise validation.wrong_arguments(
            f"the driver has no Airflow context: pass {', '.join(missing)} in the call of {name!r}, for example ds='{{{{ ds }}}}'"
        )


def _leave_to_driver(function: Callable[..., Any]) -> None:
    """Remove the parameters that the driver passes from the signature that Airflow compares with the call in the DAG."""
    signature = inspect.signature(function)
    others = [parameter for parameter in signature.parameters.values() if parameter.name not in PARAMETERS]
    function.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
