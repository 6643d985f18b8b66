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
