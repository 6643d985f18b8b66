"""Errors of the external systems."""

from __future__ import annotations


class PortError(Exception):
    """An external system failed; the message names the system and the fix."""


class UnavailableError(PortError):
    """A secrets backend, a database or a file system does not answer now. A retry may help."""


class StoreUnavailableError(UnavailableError):
    """Airflow's stores do not answer: what they contain is unknown. A retry may help."""


class ClusterUnreachableError(PortError):
    """No master answered: the state of the cluster is unknown. A retry may help."""


class NotSubmittedError(ClusterUnreachableError):
    """No master received the submission, so no master accepted it."""


class SubmissionRefusedError(PortError):
    """The master refused the submission: a retry does not help."""


class ClusterRefusedError(PortError):
    """The cluster accepts no driver until the cluster or its connection is changed."""


class SourceUnreachableError(PortError):
    """The brokers of a source do not return its end offsets. A retry may help."""


class JobDirectoryError(PortError):
    """The job directory cannot be read or written now."""


class ForeignDirectoryError(JobDirectoryError):
    """The job directory belongs to another job or to a newer version: a retry does not help."""


class OwnedJobError(PortError):
    """The job belongs to another task: a retry does not help.

    Attributes:
        owner: the other task, as `<DAG id>/<task id>`.
    """

    def __init__(self, job: str, owner: str, task: str, place: str) -> None:
        """Create the error.

        Args:
            job: name of the job.
            owner: the task to which the job belongs.
            task: the task that is refused.
            place: place of the record of the owner.
        """
        self.owner = owner
        super().__init__(
            f"the job belongs to task {owner!r} ({place}), and task {task!r} would continue from its checkpoint: give the job of this task "
            f"an id of its own. To move the job to this task, suspend the job, remove it from task {owner!r}, and set moved_from={owner!r} here"
        )
