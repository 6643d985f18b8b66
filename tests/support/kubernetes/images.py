"""The container images of a test cluster, as tar archives that containerd imports without a registry.

The image of Spark contains an entry point and little else: containerd mounts the programs of this machine, which are Java, Python and
the Python environment with Spark, read-only into each container. Nothing is copied, and pods need no volumes for them.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_adaptive.local.distribution import find_java, find_spark
from tests.support.jars import CACHE

PAUSE: Final = "airflow-adaptive.test/pause:1"
SPARK: Final = "airflow-adaptive.test/spark:1"
"""Follows the contract of Spark's own image: arguments `driver ...` and `executor`, user 185, folders `/opt/spark` and
`/opt/spark/work-dir`."""

OTHER_SPARKS: Final = CACHE / "spark"
"""Folder of other versions of Spark (`.ci/ensure_spark.sh`)."""

SPARK_USER: Final = 185

ENTRY_POINT: Final = Path(__file__).parent / "spark_image" / "entrypoint.sh"

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}

JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

PASSWORDS: Final = f"root:x:0:0:root:/root:/bin/bash\nspark:x:{SPARK_USER}:0:spark:/opt/spark/work-dir:/bin/bash\n"


@dataclass(frozen=True)
class Image:
    """An image with one layer.

    Attributes:
        name: the name that pods use.
        config: what runs in a container of the image, as in the configuration of an OCI image.
        files: content by path, with its permissions.
        links: targets of symbolic links by path.
        folders: permissions of folders by path.
    """

    name: str
    config: Mapping[str, Any]
    files: Mapping[str, tuple[bytes, int]]
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)

    def write(self, archive: Path) -> None:
        """Write the archive in the format of `docker save`."""
        layer = self._layer()
        difference = f"sha256:{hashlib.sha256(layer).hexdigest()}"
        description = {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [difference]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [self.name], "Layers": ["layer.tar"]}]
        contents = {"manifest.json": manifest, "config.json": description}
        with tarfile.open(archive, "w") as file:
            for name, content in contents.items():
                _add(file, name, json.dumps(content).encode(), 0o644)
            _add(file, "layer.tar", layer, 0o644)

    def _layer(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as layer:
            for name, mode in self.folders.items():
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, mode
                layer.addfile(folder)
            for name, (content, mode) in self.files.items():
                _add(layer, name, content, mode)
            for name, target in self.links.items():
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, target
                layer.addfile(link)
        return buffer.getvalue()


def pause_image(program: Path) -> Image:
    """Return the image of the container that holds the namespaces of a pod."""
    return Image(PAUSE, {"Entrypoint": ["/pause"]}, {"pause": (program.read_bytes(), 0o755)})


def spark_image(name: str = SPARK, spark: Path | None = None) -> Image:
    """Return the image of drivers and executors."""
    spark, java = spark or find_spark().home, find_java()
    environment = {
        "PATH": f"{java}/bin:/usr/local/bin:/usr/bin",
        "HOME": "/opt/spark/work-dir",
        "JAVA_HOME": str(java),
        "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        "SPARK_HOME": "/opt/spark",
        "PYSPARK_PYTHON": str(Path(sys.prefix).resolve() / "bin" / "python"),
    }
    config = {
        "Entrypoint": ["/opt/entrypoint.sh"],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": str(SPARK_USER),
        "WorkingDir": "/opt/spark/work-dir",
    }
    files = {
        "opt/entrypoint.sh": (ENTRY_POINT.read_bytes(), 0o755),
        "etc/passwd": (PASSWORDS.encode(), 0o644),
        "etc/group": (b"root:x:0:\n", 0o644),
    }
    system = {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}
    parts = {f"opt/spark/{part.name}": str(part.resolve()) for part in spark.iterdir() if part.name in SPARK_PARTS}
    folders = {"tmp": 0o1777, "opt/spark": 0o775, "opt/spark/conf": 0o775, "opt/spark/work-dir": 0o777}
    return Image(name, config, files, {**system, **parts}, folders)


SPARK_PARTS: Final = ("bin", "sbin", "jars", "python", "data", "examples")


def shared_folders() -> Sequence[Path]:
    """Return the folders of this machine that every container sees at the same path."""
    environment = [Path(sys.prefix), Path(sys.base_prefix), find_spark().home.parent, find_java(), OTHER_SPARKS]
    system = [Path("/usr"), Path("/etc/alternatives"), Path("/etc/ssl"), *Path("/etc").glob("java-*")]
    return _outermost(folder.resolve() for folder in (*system, *environment) if folder.exists())


def _outermost(folders: Iterable[Path]) -> Sequence[Path]:
    unique = sorted(set(folders))
    return [folder for folder in unique if not any(parent in unique for parent in folder.parents)]


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
