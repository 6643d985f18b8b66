"""Keys of the records that the task of a job keeps beside the control requests."""

from __future__ import annotations

from typing import Final

BASE: Final = "job_directory"
"""Key of the URI of the folder that contains the job directory. Loops and drivers of the job use its directory there."""

OWNER: Final = "owner"
"""Key of the task that runs the job, as `<DAG id>/<task id>`."""

ATTEMPT: Final = "attempt"
"""Key of the token of the attempt that began to run the job last. It contains the task instance."""
