"""Protocols for all external systems of the runtime, and the plain values that these protocols exchange."""

from airflow_adaptive.job.protocol.conf import PACKAGES_PROPERTY
from airflow_adaptive.job.protocol.conf import PREFIX as OWN_PREFIX
from airflow_adaptive.job.protocol.documents import SECRET_CONF_VARIABLE, SECRET_ENV_VARIABLE, SUBMISSION_ID_VARIABLE
from airflow_adaptive.job.protocol.failures import redact
from airflow_adaptive.job.protocol.reserved import (
    KUBERNETES_DETERMINED,
    KUBERNETES_PARAMETERS,
    KUBERNETES_PREFIXES,
    MANAGED_PARAMETERS,
    PARAMETERS,
    STREAMING_PARAMETERS,
    SUPERVISE,
)
from airflow_adaptive.job.protocol.secret_names import (
    SECRET_NAME_PATTERN,
    SECRET_VALUE_PATTERN,
    is_secret,
    is_secret_name,
    secret_assignments,
    secret_parts,
)
from airflow_adaptive.job.protocol.sources import KafkaSource
from airflow_adaptive.ports.clock import (
    Clock,
)
from airflow_adaptive.ports.cluster import (
    MIB,
    ActiveDriver,
    ClusterClient,
    ClusterSnapshot,
    DriverLog,
    DriverSubmission,
    Limit,
    LimitKind,
    LogPages,
    Request,
    Resources,
    SubmissionState,
    SubmissionStatus,
    Worker,
)
from airflow_adaptive.ports.errors import (
    ClusterRefusedError,
    ClusterUnreachableError,
    ForeignDirectoryError,
    JobDirectoryError,
    NotSubmittedError,
    OwnedJobError,
    PortError,
    SourceUnreachableError,
    StoreUnavailableError,
    SubmissionRefusedError,
    UnavailableError,
)
from airflow_adaptive.ports.job_directory import (
    JobDirectory,
)
from airflow_adaptive.ports.job_key import (
    FOLDER_SEPARATOR,
    JOB_ID,
    SEPARATOR,
    JobKey,
)
from airflow_adaptive.ports.job_store import (
    ControlRequests,
    DesiredState,
    JobStore,
    Requester,
)
from airflow_adaptive.ports.source_offsets import (
    SourceOffsets,
)

__all__ = [
    "FOLDER_SEPARATOR",
    "JOB_ID",
    "KUBERNETES_DETERMINED",
    "KUBERNETES_PARAMETERS",
    "KUBERNETES_PREFIXES",
    "MANAGED_PARAMETERS",
    "MIB",
    "OWN_PREFIX",
    "PACKAGES_PROPERTY",
    "PARAMETERS",
    "SECRET_CONF_VARIABLE",
    "SECRET_ENV_VARIABLE",
    "SECRET_NAME_PATTERN",
    "SECRET_VALUE_PATTERN",
    "SEPARATOR",
    "STREAMING_PARAMETERS",
    "SUBMISSION_ID_VARIABLE",
    "SUPERVISE",
    "ActiveDriver",
    "Clock",
    "ClusterClient",
    "ClusterRefusedError",
    "ClusterSnapshot",
    "ClusterUnreachableError",
    "ControlRequests",
    "DesiredState",
    "DriverLog",
    "DriverSubmission",
    "ForeignDirectoryError",
    "JobDirectory",
    "JobDirectoryError",
    "JobKey",
    "JobStore",
    "KafkaSource",
    "Limit",
    "LimitKind",
    "LogPages",
    "NotSubmittedError",
    "OwnedJobError",
    "PortError",
    "Request",
    "Requester",
    "Resources",
    "SourceOffsets",
    "SourceUnreachableError",
    "StoreUnavailableError",
    "SubmissionRefusedError",
    "SubmissionState",
    "SubmissionStatus",
    "UnavailableError",
    "Worker",
    "is_secret",
    "is_secret_name",
    "redact",
    "secret_assignments",
    "secret_parts",
]
