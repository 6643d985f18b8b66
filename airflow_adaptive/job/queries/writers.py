"""The arguments of the build function, and validation of its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.spark_internals import writer_option

Streams = Mapping[str, DataStreamWriter]
"""Writer of each query by name, in the order in which the build function returned them."""

Writers = Streams | DataFrameWriter
"""Result of the build function: streaming queries that are not started, or a batch that is not saved."""

Build = Callable[[SparkSession, Mapping[str, int]], DataStreamWriter | Sequence[DataStreamWriter] | DataFrameWriter]
"""The build function: `(spark, parallelism per vertex) -> df.writeStream...`, a list of them, or `-> df.write...`."""

HINT = (
    "return df.writeStream... of a streaming DataFrame, not started, or a list of these, or df.write... of a batch, "
    "not saved"
)


STARTS: Final = {
    "start": "return the writer, do not call start(), because the runtime starts the query",
    "toTable": "return the writer, do not call toTable(), because the runtime starts the query; to write to a table, set its format and the option "
    "'path', or return df.writeStream.foreachBatch(...) with a function that appends to the table",
}
"""Method that starts a query -> what to do instead."""


class AdaptiveJobError(TypeError):
    """The build function returned something that cannot run, or started a query. A restart does not help."""


class PlannedParallelism(Mapping[str, int]):
    """The parallelism of the plan, which records the vertices that the build function reads, also after its call.

    Attributes:
        vertices_read: names of these vertices. An iteration or a copy reads all vertices.
    """

    def __init__(self, planned: Mapping[str, int]) -> None:
        self._planned = dict(planned)
        self.vertices_read: set[str] = set()

    def __getitem__(self, vertex: str) -> int:
        count = self._planned[vertex]
        self.vertices_read.add(vertex)
        return count

    def __contains__(self, vertex: object) -> bool:
        return vertex in self._planned

    def __iter__(self) -> Iterator[str]:
        self.vertices_read.update(self._planned)
        return iter(self._planned)

    def __len__(self) -> int:
        return len(self._planned)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type, tuple[dict[str, int]]]:
        """Pickle as a dict, because the driver would not notice reads in an executor."""
        return dict, (dict(self),)


@contextmanager
def starts_rejected(function: str) -> Iterator[None]:
    """Let the methods of all writers that start a query raise `AdaptiveJobError` instead, while the build function of this name runs."""
    originals = {name: getattr(DataStreamWriter, name) for name in STARTS}
    for name in STARTS:
        setattr(DataStreamWriter, name, _rejection(function, name))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(DataStreamWriter, name, original)


def require_writers(returned: object, function: str, job: str) -> Writers:
    """Return the writers that the build function of this name returned, by name. A single query has the name of the job unless the script names it.

    Raises:
        AdaptiveJobError: the result cannot run; the message names the problem and the fix.
    """
    if isinstance(returned, DataFrameWriter):
        return returned
    if isinstance(returned, DataStreamWriter):
        return {query_name(returned) or job: returned}
    if not isinstance(returned, list | tuple):
        raise AdaptiveJobError(f"{function}() returned {type(returned).__name__}: {HINT}")
    if invalid := [item for item in returned if not isinstance(item, DataStreamWriter)]:
        kinds = ", ".join(dict.fromkeys(type(item).__name__ for item in invalid))
        raise AdaptiveJobError(f"{function}() returned {kinds} in a {type(returned).__name__}: {HINT}")
    return _named(returned, function, job)


def require_same_queries(names: Iterable[str], before: Sequence[str], function: str) -> None:
    """Require that a further call of the build function returns the same queries; no names stand for a batch, and no names before for the first call.

    Raises:
        AdaptiveJobError: the queries differ; the message names the differences.
    """
    now = list(names)
    missing = [f"{name!r} is missing" for name in before if name not in now]
    new = [f"{name!r} is new" for name in now if name not in before]
    if before and (missing or new):
        raise AdaptiveJobError(
            f"{function}() returned other queries than before, {', '.join(missing + new)}: return queries with the "
            "same names for every parallelism; to change the queries, start a new run of the job"
        )


def query_name(writer: DataStreamWriter) -> str | None:
    """Return the name that the script gave a query, or None."""
    return writer_option(writer, "queryName")


def function_name(build: Any) -> str:
    """Return the name of the build function for messages; for a `functools.partial`, the name of its function."""
    return str(getattr(getattr(build, "func", build), "__name__", type(build).__name__))


def _rejection(function: str, method: str) -> Callable[..., NoReturn]:
    def reject(*_: object, **__: object) -> NoReturn:
        raise AdaptiveJobError(f"{function}() called {method}(): {STARTS[method]}")

    return reject


def _named(writers: Sequence[DataStreamWriter], function: str, job: str) -> Streams:
    """Return the writers by name. Raises `AdaptiveJobError`."""
    if not writers:
        raise AdaptiveJobError(f"{function}() returned no query: {HINT}")
    names = [query_name(writer) for writer in writers]
    if len(writers) == 1:
        names = [names[0] or job]
    if nameless := [str(number) for number, name in enumerate(names, start=1) if not name]:
        raise AdaptiveJobError(
            f"{function}() returned queries without a name (number {', '.join(nameless)} of {len(names)}): add "
            ".queryName(...) to each query, because the name identifies its checkpoint"
        )
    if double := [repr(name) for name, count in Counter(names).items() if count > 1]:
        raise AdaptiveJobError(
            f"{function}() returned several queries of the name {', '.join(double)}: use a different .queryName(...) for each"
        )
    return {str(name): writer for name, writer in zip(names, writers, strict=True)}
