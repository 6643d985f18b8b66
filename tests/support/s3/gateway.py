"""A real S3 server: versitygw, which keeps each bucket as a folder and each object as a file."""

from __future__ import annotations

import secrets
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
from s3fs import S3FileSystem

from tests.support.kubernetes.host import free_port
from tests.support.kubernetes.processes import ClusterProcess
from tests.support.repository import ROOT

BUILD: Final = ROOT / ".ci" / "build_versitygw.sh"

REGION: Final = "us-east-1"


class MissingGatewayError(Exception):
    """The server is not built. The message is one line that names the command that builds the server."""


@dataclass(frozen=True)
class S3User:
    """The credentials of a user. The first user of a server may do everything."""

    name: str
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


class S3Gateway:
    """A server on one address. It ends with the cluster to whose folder its files belong.

    Attributes:
        url: the endpoint, without TLS.
        admin: the first user.
    """

    def __init__(self, folder: Path, buckets: Path, address: str) -> None:
        """Describe a server without starting it.

        Args:
            folder: folder of the cluster in which the server writes its log and its users.
            buckets: folder whose subfolders are the buckets.
            address: address of this machine on which the server listens.
        """
        self.admin = S3User("admin")
        self._program = _program()
        port = free_port(address)
        self.url = f"http://{address}:{port}"
        own = folder / f"s3-{port}"
        own.mkdir()
        command: list[str | Path] = [
            self._program, "--port", f"{address}:{port}", "--access", self.admin.name, "--secret", self.admin.secret,
            "--iam-dir", own, "--region", REGION, "--quiet", "posix", buckets,
        ]  # fmt: skip
        self._process = ClusterProcess("versitygw", command, own)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._process.start(self._answers)

    def kill(self) -> None:
        """Kill the server."""
        self._process.kill()

    def create_user(self, name: str) -> S3User:
        """Create a user who may do everything in all buckets."""
        user = S3User(name)
        command = [
            str(self._program), "admin", "--access", self.admin.name, "--secret", self.admin.secret,
            "--endpoint-url", self.url, "create-user", "--access", user.name, "--secret", user.secret, "--role", "admin",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        return user

    def filesystem(self, user: S3User) -> S3FileSystem:
        """Return a client with the credentials of a user."""
        return S3FileSystem(
            key=user.name,
            secret=user.secret,
            endpoint_url=self.url,
            client_kwargs={"region_name": REGION},
            skip_instance_cache=True,
        )

    def spark_properties(self, user: S3User) -> dict[str, str]:
        """Return the Spark properties of Hadoop's connector with the credentials of a user."""
        options = {
            "access.key": user.name,
            "secret.key": user.secret,
            "endpoint": self.url,
            "endpoint.region": REGION,
            "path.style.access": "true",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in options.items()}

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            httpx.get(self.url, trust_env=False)
            return True
        return False


def _program() -> Path:
    found = subprocess.run([BUILD, "path"], check=True, capture_output=True, text=True)
    program = Path(found.stdout.strip())
    if not program.exists():
        raise MissingGatewayError("The tests on S3 need versitygw: run .ci/build_versitygw.sh.")
    return program
