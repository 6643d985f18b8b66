"""What the author's function is given, and what it may return.

Reaches into the JVM for what Python does not show: the name that the script gave a query (`extraOptions` of
`org.apache.spark.sql.classic.DataStreamWriter`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

Streams = Mapping[str, DataStreamWriter]
"""Query name -> its writer, in the order in which the function returned them."""

Writers = Streams | DataFrameWriter
"""What comes of the author's function: streaming queries that are not started, or a batch that is not saved."""

Build = Callable[[SparkSession, Mapping[str, int]], DataStreamWriter | Sequence[DataStreamWriter] | DataFrameWriter]
"""The author's function: `(spark, parallelism per vertex) -> df.writeStream...`, a list of them, or `-> df.write...`."""

HINT = (
    "return df.writeStream... of a streaming DataFrame, not started, or a list of them, or df.write... of a batch, "
    "not saved"
)


class AdaptiveJobError(TypeError):
    """The author's function gave something that can't be run: no restart mends that."""


class PlannedParallelism(Mapping[str, int]):
    """The plan's parallelism, which remembers the vertices that it was asked for; so it goes on after the call.

    Attributes:
        vertices_read: names of these vertices. Whoever looks at all of it, or makes a copy, asks for all.
    """

    def __init__(self, planned: Mapping[str, int]) -> None:
        """Nothing was asked yet."""
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
        """An executor, which a function of the script may take it to, gets a dict: it could not tell what is vertices_read."""
        return dict, (dict(self),)


def require_writers(returned: object, function: str, job: str) -> Writers:
    """What the author's function of that name returned, if it is what it should be.

    Args:
        returned: by the function.
        function: its name.
        job: id of the job, and name of a single query unless the script gives it one.

    Raises:
        AdaptiveJobError: it is not; says what is, and what to do.
    """
    if isinstance(returned, DataFrameWriter):
        return returned
    if isinstance(returned, DataStreamWriter):
        return {query_name(returned) or job: returned}
    if not isinstance(returned, list | tuple):
        raise AdaptiveJobError(f"{function}() returned {type(returned).__name__}: {HINT}")
    if strange := [item for item in returned if not isinstance(item, DataStreamWriter)]:
        kinds = ", ".join(dict.fromkeys(type(item).__name__ for item in strange))
        raise AdaptiveJobError(f"{function}() returned {kinds} in a {type(returned).__name__}: {HINT}")
    return _named(returned, function, job)


def require_same_queries(names: Iterable[str], before: Sequence[str], function: str) -> None:
    """A function that is called again returns the queries that it returned before.

    Args:
        names: of the queries that it returned, none if it returned a batch.
        before: names of those that it had returned, none the first time.
        function: its name.

    Raises:
        AdaptiveJobError: it returned others; names them.
    """
    now = list(names)
    missing = [f"{name!r} is missing" for name in before if name not in now]
    new = [f"{name!r} is new" for name in now if name not in before]
    if before and (missing or new):
        raise AdaptiveJobError(
            f"{function}() returned other queries than before, {', '.join(missing + new)}: return the same ones, by "
            "name, whatever the parallelism; a job with other queries is submitted anew"
        )


def query_name(writer: DataStreamWriter) -> str | None:
    """The name that the script gave a query, None without one."""
    return query_option(writer, "queryName")


def query_option(writer: DataStreamWriter, name: str) -> str | None:
    """What the script set an option of a query to, None if it did not."""
    options = writer._jwrite.getClass().getDeclaredField("extraOptions")
    options.setAccessible(True)
    value = options.get(writer._jwrite).get(name)
    return str(value.get()) if value.isDefined() else None


def function_name(build: Any) -> str:
    """What to call the author's function in a message; that of a `functools.partial` is the one it stands for."""
    return str(getattr(getattr(build, "func", build), "__name__", type(build).__name__))


def _named(writers: Sequence[DataStreamWriter], function: str, job: str) -> Streams:
    """The writers by name. Raises `AdaptiveJobError`."""
    if not writers:
        raise AdaptiveJobError(f"{function}() returned no query at all: {HINT}")
    names = [query_name(writer) for writer in writers]
    if len(writers) == 1:
        names = [names[0] or job]
    if nameless := [str(number) for number, name in enumerate(names, start=1) if not name]:
        raise AdaptiveJobError(
            f"{function}() returned {len(names)} queries, of which number {', '.join(nameless)} has no name: give each "
            "its own .queryName(...), by which its checkpoint is found again"
        )
    if double := [repr(name) for name, count in Counter(names).items() if count > 1]:
        raise AdaptiveJobError(
            f"{function}() returned several queries of the name {', '.join(double)}: give each its own .queryName(...)"
        )
    return {str(name): writer for name, writer in zip(names, writers, strict=True)}
