"""Paths on file systems and object stores, with the credentials of the Airflow connection in the URI (`s3://connection@bucket/folder`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final

from airflow.sdk import ObjectStoragePath

from airflow_adaptive._airflow.internals import AirflowNotFoundException, AirflowSecretsBackendAccessDenied
from airflow_adaptive._clusters.connection_fields import AddressError, UndefinedConnectionError
from airflow_adaptive._core.ports import UnavailableError

S3_SCHEMES: Final = ("s3a://", "s3n://")
"""Schemes of Spark for S3. Airflow registers the scheme `s3`."""

EXTRAS: Final = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "abfs", "abfss": "abfs"}
"""Scheme -> extra of airflow-adaptive that installs the Airflow provider of the object store."""


def object_storage_path(uri: str) -> ObjectStoragePath:
    """Return the path of a URI; blocks on the Airflow connection in the URI.

    Raises:
        AddressError: Airflow does not find the connection in the URI, or refuses access to the connection.
        UnavailableError: the file system cannot be used now.
        ValueError: Airflow has no access to the file system.
    """
    for scheme in S3_SCHEMES:
        if uri.startswith(scheme):
            uri = f"s3://{uri.removeprefix(scheme)}"
    try:
        return _outside_of_event_loops(lambda: _connected(uri))
    except AirflowSecretsBackendAccessDenied as error:
        raise AddressError(
            f"{uri!r}: a secrets backend denies access to the connection ({error}): give the task access to the connection"
        ) from error
    except AirflowNotFoundException as error:
        raise UndefinedConnectionError(
            f"{uri!r}: the connection in the URI is not defined ({error}): add it"
        ) from error
    except (ImportError, ValueError) as error:
        extra = EXTRAS.get(uri.partition(":")[0])
        remedy = (
            f"install airflow-adaptive[{extra}] where Airflow runs"
            if extra
            else "use an object store such as s3://, or a path"
        )
        raise ValueError(f"{uri!r} cannot be used ({error}): {remedy}") from error
    except Exception as error:  # The libraries of object stores raise exceptions of any class.
        raise UnavailableError(
            f"{uri!r} cannot be used now ({type(error).__name__}: {error}): check the connection in the URI"
        ) from error


def _connected(uri: str) -> ObjectStoragePath:
    path = ObjectStoragePath(uri)
    _ = path.fs  # Otherwise, Airflow would ignore an error of the connection, and use other credentials.
    return path


def _outside_of_event_loops(connect: Callable[[], ObjectStoragePath]) -> ObjectStoragePath:
    """Call a function in a thread without an event loop, because Airflow's provider of S3 starts an event loop to read the credentials."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return connect()
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(copy_context().run, connect).result()
