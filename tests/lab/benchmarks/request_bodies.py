"""CPU time that the largest request body costs the API server, and the growth of this time with the size of the body.

Any user who may read a job can send such a body to `:preview`. Each body is parsed, validated and, if it is valid, used for a dry run.
Times are CPU times, medians of several runs in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from airflow_adaptive._core.requirements import dry_run, request_bodies
from airflow_adaptive._core.requirements.request_bodies import encode_requirements
from airflow_adaptive._core.scheduler.errors import RequirementsError
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._web.api.security import MAX_BODY_BYTES
from tests.lab.benchmarks.scheduler import machine_line
from tests.lab.scenario import Scenario
from tests.support.published_tables import publish

RUNS: Final = 9

SHARES: Final = (0.25, 1.0)
"""Sizes of the bodies, as shares of the largest size."""


def valid(size: int) -> bytes:
    """Bounds of as many vertices as fit."""
    return _object(size, lambda number: f'"vertex-{number}":{{"parallelism":{{"lowerBound":1,"upperBound":2}}}}')


def duplicate(size: int) -> bytes:
    """Short fields, the last of which occurs twice."""
    body = unknown(size - 16)
    return body[:-1] + body[body.rindex(b",") :]


def unknown(size: int) -> bytes:
    """Short fields, each of which is a violation."""
    return _object(size, lambda number: f'"{number:x}":1')


def nested(size: int) -> bytes:
    """Arrays in arrays."""
    return b"[" * size


def digits(size: int) -> bytes:
    """Long numbers, just below the limit of Python."""
    return _object(size, lambda number: f'"{number}":{"9" * 4_000}')


BODIES: Final[Mapping[str, Callable[[int], bytes]]] = {
    "valid bounds": valid,
    "a duplicate field": duplicate,
    "unknown fields": unknown,
    "nested arrays": nested,
    "long numbers": digits,
}


def job(size: int) -> Scenario:
    """A running job with the vertices of the valid body."""
    names = json.loads(valid(size))
    vertices = tuple(JobVertex(name=name, parallelism=ParallelismRange(1, 4)) for name in names)
    return Scenario(graph=JobGraph(job="benchmark", vertices=vertices)).given_executing(2)


def preview(body: bytes, running: Scenario) -> Any:
    """Preview the body as the REST API does; return the result or the violations."""
    try:
        bounds = request_bodies.admit(request_bodies.parse_json(body), running.state)
    except RequirementsError as error:
        return error.violations
    result = dry_run.preview(running.state, bounds, running.now)
    return encode_requirements(result.requirements)


def measure(size: int, runs: int) -> dict[str, float]:
    """CPU time of the preview of each body of a size, in milliseconds."""
    running = job(size)
    return {name: statistics.median(_cpu_ms(make(size), running) for _ in range(runs)) for name, make in BODIES.items()}


def _cpu_ms(body: bytes, running: Scenario) -> float:
    begin = time.process_time()
    preview(body, running)
    return (time.process_time() - begin) * 1000


def table(measured: Mapping[int, Mapping[str, float]]) -> list[str]:
    """The measurements and their growth, as Markdown."""
    sizes = sorted(measured)
    heads = [f"{size >> 10} KiB (ms)" for size in sizes]
    rows = [
        f"| {name} | {' | '.join(f'{measured[size][name]:,.2f}' for size in sizes)}"
        f" | x {measured[sizes[-1]][name] / measured[sizes[0]][name]:.1f} |"
        for name in BODIES
    ]
    return [f"| body | {' | '.join(heads)} | growth |", "|---|" + "---:|" * (len(sizes) + 1), *rows]


def _object(size: int, field: Callable[[int], str]) -> bytes:
    """A JSON object with as many fields as fit."""
    length = 2
    fields: list[str] = []
    for number in count():
        length += len(field(number)) + 1
        if length > size:
            return ("{" + ",".join(fields) + "}").encode()
        fields.append(field(number))
    raise AssertionError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the section of a page on request."""
    parser = argparse.ArgumentParser(prog="tests.lab.benchmarks.request_bodies", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of which the median is taken")
    parser.add_argument("--write", type=Path, help="page whose section 'request bodies' is to be rewritten")
    options = parser.parse_args(arguments)
    sizes = [int(MAX_BODY_BYTES * share) for share in SHARES]
    lines = [machine_line(), "", *table({size: measure(size, options.runs) for size in sizes})]
    print("\n".join(lines))
    if options.write is not None:
        publish("request bodies", "\n".join(lines), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
