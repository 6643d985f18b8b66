"""Java as tests want it: its JVMs live shortly, and there are many."""

from __future__ import annotations

import os
from typing import Final

OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Without them half of the processors' time goes into compiling what hardly runs."""


def use_short_lived_jvms() -> None:
    """Start each JVM of this process with these options, unless the user sets JDK_JAVA_OPTIONS."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", OPTIONS)
