"""What the user of the demo on Kubernetes chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """What the user chooses.

    Attributes:
        kubeconfigs: files of which one contains the context.
        context: context of the cluster, whose user may create namespaces, accounts and roles.
        image: image with Spark.
        conf: Spark properties of the driver.
    """

    kubeconfigs: Sequence[Path]
    context: str
    image: str
    conf: Mapping[str, str] = field(default_factory=dict)
