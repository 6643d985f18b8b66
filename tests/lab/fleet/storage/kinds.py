"""Kinds of storages: how fast they answer, and what their listings show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageKind:
    """A kind of storage.

    Attributes:
        protocol: protocol of fsspec under which the product knows the storage.
        latency_s: shortest and longest time of a call, in seconds.
        lag_s: longest time after which a listing contains a new file, in seconds. Reads see each file immediately.
    """

    protocol: str
    latency_s: tuple[float, float]
    lag_s: float = 0.0


KINDS = {
    "s3": StorageKind(protocol="s3", latency_s=(0.015, 0.08)),
    "s3-compatible": StorageKind(protocol="s3", latency_s=(0.01, 0.15), lag_s=3.0),
    "gs": StorageKind(protocol="gs", latency_s=(0.03, 0.2)),
    "hdfs": StorageKind(protocol="file", latency_s=(0.002, 0.4)),
    "disk": StorageKind(protocol="file", latency_s=(0.0001, 0.003)),
}
"""Name -> kind. The names of Amazon S3 and Google Cloud Storage appear in listings at once; other object stores may need some seconds. A mounted
HDFS and a shared disk are file systems."""
