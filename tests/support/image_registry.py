"""A real registry of images, which gives images only to a user with a password."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.kubernetes.host import free_port
from tests.support.kubernetes.processes import ClusterProcess

HOST: Final = "127.0.0.1"
"""Container runtimes speak to registries on the loopback interface without TLS."""

USER: Final = "airflow"
PASSWORD: Final = "registry-password"
PASSWORD_HASH: Final = "$2y$04$abcdefghijklmnopqrstuuvMfIFKvu0UMo4ROgipiW53f9qa5YK3q"
"""The bcrypt hash of the password. Python has no module for it."""


class ImageRegistry:
    """A registry on this machine. It ends with the cluster to whose folder its files belong.

    Attributes:
        address: host and port, the first part of the names of its images.
    """

    def __init__(self, folder: Path) -> None:
        """Describe a registry without starting it.

        Args:
            folder: folder of the cluster.
        """
        self.address = f"{HOST}:{free_port(HOST)}"
        own = folder / "registry"
        own.mkdir()
        (own / "users").write_text(f"{USER}:{PASSWORD_HASH}\n")
        configuration = {
            "version": 0.1,
            "http": {"addr": self.address},
            "storage": {"filesystem": {"rootdirectory": str(own / "images")}},
            "auth": {"htpasswd": {"realm": "images", "path": str(own / "users")}},
        }
        (own / "configuration.yml").write_text(json.dumps(configuration))  # Each JSON document is a YAML document.
        self.process = ClusterProcess("registry", ["docker-registry", "serve", own / "configuration.yml"], own)

    def start(self) -> None:
        """Start the registry, for the first time or after `process.kill`."""
        self.process.start(self._answers)

    def pull_secret(self, password: str = PASSWORD) -> dict[str, Any]:
        """Return the content of a Secret with the credentials of the user."""
        credentials = base64.b64encode(f"{USER}:{password}".encode()).decode()
        config = {"auths": {self.address: {"auth": credentials}}}
        return {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": json.dumps(config)}}

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://{self.address}/v2/", auth=(USER, PASSWORD), trust_env=False).is_success
        return False
