"""Runs the demo with a broker of Kafka on this machine, of which nothing remains afterwards (`make demo SOURCE=kafka`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from airflow_adaptive.local.__main__ import main as run_local
from tests.support.jars import resolve_all
from tests.support.kafka.cluster import running_kafka
from tests.support.kafka.jars import BROKER


def main(arguments: Sequence[str]) -> int:
    """Resolve the jars of the broker if they are missing, start the broker, and run the demo with further arguments."""
    resolve_all(BROKER)
    with running_kafka() as kafka:
        return run_local(["demo", "--bootstrap-servers", kafka.bootstrap_servers, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
