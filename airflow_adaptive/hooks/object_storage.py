"""Paths on file systems and object stores, with the credentials of the Airflow connection in the URI (`s3://connection@bucket/folder`)."""

from __future__ import annotations

from typing import Final

from airflow.sdk import ObjectStoragePath
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied

from airflow_adaptive.spark.connection_fields import AddressError, UndefinedConnectionError

S3_SCHEMES: Final = ("s3a://", "s3n://")
"""Schemes of Spark for S3. Airflow registers the scheme `s3`."""

EXTRAS: Final = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "abfs", "abfss": "abfs"}
"""Scheme -> extra of airflow-adaptive that installs the Airflow provider of the object store."""


def object_storage_path(uri: str) -> ObjectStoragePath:
    """Return the path of a URI; blocks on the Airflow connection in the URI.

    Raises:
        AddressError: Airflow does not find the connection in the URI, or refuses access to the connection.
        ValueError: Airflow has no access to the file system.
    """
    for scheme in S3_SCHEMES:
        if uri.startswith(scheme):
            uri = f"s3://{uri.removeprefix(scheme)}"
    scheme = uri.partition(":")[0]
    extra = EXTRAS.get(scheme)
    try:
        path = ObjectStoragePath(uri)
        _ = path.fs  # Otherwise, Airflow would ignore an error of the connection, and use other credentials.
    except AirflowSecretsBackendAccessDenied as error:
        raise AddressError(
            f"{uri!r}: a secrets backend denies access to the connection ({error}): give the task access to the connection"
        ) from error
    except AirflowNotFoundException as error:
        raise UndefinedConnectionError(
            f"{uri!r}: the connection in the URI is not defined ({error}): add it"
        ) from error
    except (ImportError, ValueError) as error:
        remedy = (
            f"install airflow-adaptive[{extra}] where Airflow runs"
            if extra
            else "use an object store such as s3://, or a path"
        )
        raise ValueError(f"{uri!r} cannot be used ({error}): {remedy}") from error
    return path
