"""The rules by which a loop may take a job over from a loop of another attempt.

Theory: the journal cannot decide, because it does not tell which attempt is the current one: Airflow's database may have been restored, and a
triggerer that was frozen may start an outdated trigger. Airflow decides, through the state of a task and the attempt in its XComs. A loop that
Airflow does not answer knows nothing, so it must neither claim nor kill anything.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._airflow.process.task_state import is_task_over, owns
from airflow_adaptive._airflow.store.task_xcoms import TaskKey
from airflow_adaptive._core.ports import StoreUnavailableError
from airflow_adaptive._engine.journal.journal import MayTakeOver


def may_run(task: TaskKey, attempt: str) -> MayTakeOver:
    """Return the rule for a loop that runs a job: its attempt is the current one of a task that has not ended.

    Args:
        task: the task instance.
        attempt: token of the attempt.
    """
    return _answered(lambda _: owns(task, attempt) and not is_task_over(task))


def may_end(task: TaskKey, attempt: str) -> MayTakeOver:
    """Return the rule for a loop that ends a job: the other attempt belongs to the same task, or its task has ended. Arguments as `may_run`.

    Another task that has not ended runs the job, or starts it.
    """

    def rule(other: str) -> bool:
        of = TaskKey.of_attempt(other)
        return owns(task, attempt) and (of == task or (of is not None and is_task_over(of)))

    return _answered(rule)


def _answered(rule: Callable[[str], bool]) -> MayTakeOver:
    """Return a blocking rule as a question, whose answer may be unknown."""

    async def answer(other: str) -> bool:
        try:
            return await ProcessResources.current().store_access.read(lambda: rule(other))
        except StoreUnavailableError:
            raise
        except Exception as error:
            raise StoreUnavailableError(f"{type(error).__name__}: {error}") from error

    return answer
