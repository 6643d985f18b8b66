"""Finds files of a checkpoint that are missing or damaged, so that no restart can help.

Theory: Spark writes each file of a checkpoint once, under a temporary name, and renames it. A power loss or a full disk after the
rename leaves a file that is empty or cut; a restore from a backup or a lifecycle rule of a bucket leaves a file out. Spark reports such
files with general exceptions, which outages cause, too. Therefore the files decide, not the exceptions: a file is damaged only if the
storage lists and reads it, and its content is not complete. An error of the storage is raised, and decides nothing.

* Before a start, `require_sound_logs` reads what Spark reads at a start: the id of the query, the newest two offsets and the newest commit.
  A commit after the newest offsets would let Spark run an older batch again, and write its rows to the sink once for each restart.
  It also lists the logs of the file sources and of a file sink, without their content. With a source that has forgotten its newest files, Spark
  would log new files under their number and never read them; with a sink that knows newer batches than the checkpoint, it would skip batches.
* After a failure, `find_damage` also reads the content of these logs, and the state that the next batch needs.

What Spark repairs is not damage: a missing newest commit (the batch runs again with the same offsets), a damaged snapshot of the state with
an older one and all changes since, and temporary files of a killed driver, whose names are no numbers. The module deletes nothing.
"""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

BACKUP: Final = "restore the file from a backup"

NEW_CHECKPOINT: Final = "or start the query with a new checkpoint, under another name of the query or of the job"

STATE_FILE: Final = re.compile(r"(\d+)(?:_[\w-]+)?\.(zip|snapshot|changelog|delta)")
"""A file of a state store: RocksDB's snapshots and changelogs, and those of Spark's default provider. Format 2 adds an id to the version."""

SNAPSHOTS: Final = ("zip", "snapshot")

VERSION: Final = re.compile(rb"v\d+\s*(?:\n|$)")
"""First line of a log of Spark."""

OF_SOURCE: Final = re.compile(r"[\w-]+:(?=[{\[-])")
"""Start of an offset in version 2 of the log: the name of its source."""

FILE_LOG: Final = re.compile(r"(\d+)(\.compact)?")
"""A file of the log of a source or of a file sink. A compact file has the content of all files before it."""

MAX_FILE_LOG_BYTES: Final = 8_000_000
"""Size above which the content of a log of files is not read: a compact file names all files that a source has ever seen."""

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""Name under which the offsets of a batch contain the number of state partitions."""

FAILED_TASK: Final = re.compile(r"\bTask (\d+) in stage")
"""The task of a state partition has the number of the partition."""

STATE_FAILURE: Final = re.compile(
    r"STATE_STORE|STATE_REWRITER|STDS_|STREAM_STREAM_JOIN_INCONSISTENT_STATE|StateStore|RocksDB|CHECKSUM_VERIFICATION|MALFORMED_LOG_FILE|"
    r"INVALID_LOG_VERSION|EOFException|ZipException|FileNotFoundException|NoSuchFileException|Incomplete log file|/state/"
)
"""A failure that damaged state may have caused: error conditions of Spark 4.3, exceptions, and paths."""

SEARCH_S: Final = 20.0
"""Longest search for damaged state in seconds: the driver loop waits for it, and must renew its lease."""


class DamagedCheckpointError(RuntimeError):
    """Files of a checkpoint are missing or damaged. A restart does not help."""


class UnreadableContentError(Exception):
    """A file that the storage reads has a content that is not complete."""


class Files(Protocol):
    """The files of one checkpoint. The methods raise the exceptions of the storage, which decide nothing."""

    @property
    def uri(self) -> str:
        """URI of the checkpoint."""

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Return the sizes of the files of a folder by their names, empty without the folder."""

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders of a folder, empty without the folder."""

    def read(self, file: str) -> bytes:
        """Return the content of a file. Raises `UnreadableContentError` if it does not match its checksum."""

    def verify(self, file: str) -> None:
        """Read a file of the state. Raises `UnreadableContentError` if it does not match the checksum that Spark has written beside it."""

    def decompress(self, file: str) -> None:
        """Read a compressed file of the state. Raises `UnreadableContentError` if its content is not complete."""


# ---- the logs of the query ------------------------------------------------------------------------------------------


def require_sound_logs(files: Files, *, is_contiguous: bool = True, sink: Files | None = None) -> None:
    """Raise `DamagedCheckpointError` if a start from a checkpoint can never succeed, or would repeat a batch into the sink.

    Asynchronous progress tracking logs only some offsets, so they are not contiguous. `sink` is the metadata log of a file sink.
    """
    problem = _problem_of_logs(files, is_contiguous=is_contiguous)
    problem = problem or _problem_of_file_logs(files, sink, has_failed=False)
    if problem is not None:
        raise DamagedCheckpointError(problem)


def _problem_of_logs(files: Files, *, is_contiguous: bool) -> str | None:
    commits = _numbers(files.sizes("commits"))  # first: a query that runs commits after it has logged the offsets
    offsets = _numbers(files.sizes("offsets"))
    for folder in ("", "commits", "offsets"):
        name = next((name for name in files.folders(folder) if name == "metadata" or name.isdecimal()), None)
        if name is not None:
            return f"{_at(files, f'{folder}/{name}'.lstrip('/'))} is a folder instead of a file: {BACKUP}, or remove the folder, as if the file was missing"
    metadata = "metadata" if "metadata" in files.sizes("") else None
    if metadata is not None and (reason := _reason(files, metadata, _require_metadata)):
        return (
            f'{_at(files, metadata)} {reason}: {BACKUP}, or write {{"id":"<id of the query>"}} into it, with the id from the progress of the '
            f"query (a sink that compares ids, such as Delta Lake, takes another id for another query), {NEW_CHECKPOINT}"
        )
    newest, committed = max(offsets, default=None), max(commits, default=None)
    if committed is not None and (newest is None or committed > newest):
        return (
            f"{_at(files, f'offsets/{committed}')} is missing, but batch {committed} is committed ({_at(files, f'commits/{committed}')}): "
            f"{BACKUP}. Without a backup, delete commits/{committed} as well, and expect that batch {committed} runs again"
            f"{'' if newest is None else f' after batch {newest}'}, with the rows that are there then. A restart would only write "
            f"an older batch to the sink again"
        )
    if newest is None:
        return None
    for number in (newest, newest - 1) if newest and is_contiguous else (newest,):
        reason = "is missing" if number not in offsets else _reason(files, f"offsets/{number}", _require_log)
        if reason:
            return f"{_at(files, f'offsets/{number}')} {reason}: {BACKUP}, {NEW_CHECKPOINT}. The query cannot know which rows batch {number} has read"
    if committed is not None and (reason := _reason(files, f"commits/{committed}", _require_log)):
        return (
            f"{_at(files, f'commits/{committed}')} {reason}: {BACKUP}, or delete it, so that batch {committed} runs again with the same "
            "rows; a sink that does not compare the numbers of batches then has these rows twice"
        )
    return None


def _require_metadata(content: bytes) -> None:
    json.loads(content)["id"]


def _require_log(content: bytes) -> None:
    """Require a version, and complete JSON in each further line that begins as JSON."""
    if not any(_complete_lines(content)):
        raise ValueError


def _complete_lines(content: bytes) -> list[str]:
    """Return the lines after the version. Raises `ValueError` without a version, and if a line begins as JSON and is not complete."""
    version, *lines = content.lstrip(b"\0").decode().split("\n")  # Kafka's initial offsets begin with a zero
    if re.fullmatch(r"v\d+", version.strip()) is None:
        raise ValueError
    for line in lines:
        value = OF_SOURCE.sub("", line)
        if value.startswith(("{", "[")):
            json.loads(value)
    return lines


def _reason(files: Files, file: str, require: Callable[[bytes], None]) -> str | None:
    """Return what is wrong with a file, or None."""
    try:
        content = files.read(file)
        if not content:
            return "is empty"
        require(content)
    except (ValueError, LookupError, TypeError, UnreadableContentError) as error:
        return f"is damaged ({error})" if isinstance(error, UnreadableContentError) else "is cut or damaged"
    return None


# ---- after a failure ------------------------------------------------------------------------------------------------


def find_damage(
    files: Files,
    failure: str,
    *,
    repairs: bool = True,
    partitions: int | None = None,
    sink: Files | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> str | None:
    """Return which file of a query that has failed is missing or damaged, and what to do; None without damage.

    Args:
        files: files of the checkpoint.
        failure: class names and messages of the failure.
        repairs: whether Spark repairs a damaged snapshot.
        partitions: number of state partitions, None if unknown.
        sink: files of the metadata log of a file sink, None for another sink.
        clock: limits the search, in seconds.
    """
    problem = _problem_of_logs(files, is_contiguous=False) or _problem_of_file_logs(files, sink, has_failed=True)
    if problem is not None or not STATE_FAILURE.search(failure):
        return problem
    task = FAILED_TASK.search(failure)
    first, until = None if task is None else int(task[1]), clock() + SEARCH_S
    return find_damaged_state(
        files, None, repairs=repairs, partitions=partitions, first=first, until=until, clock=clock
    )


# ---- the logs of file sources and of a file sink ---------------------------------------------------------------------


def _problem_of_file_logs(files: Files, sink: Files | None, *, has_failed: bool) -> str | None:
    """Return what is wrong with the logs of the sources and of the sink; after a failure, their content is read, too."""
    newest, committed = (max(_numbers(files.sizes(log)), default=None) for log in ("offsets", "commits"))
    positions = {} if newest is None else _positions(files, newest)
    for source in sorted({*files.folders("sources"), *positions}):
        is_of_files = source in positions
        folder, position = f"sources/{source}", positions.get(source)
        problem = _problem_of_source(files, folder, position, is_of_files, has_failed=has_failed)
        if problem is not None:
            return f"{problem}: {BACKUP}, {NEW_CHECKPOINT}. The query cannot know which files it has read"
    return None if sink is None else _problem_of_sink(files, sink, newest, committed, has_failed=has_failed)


def _positions(files: Files, batch: int) -> dict[str, int]:
    """Return the number of the newest log that the offsets of a batch need, by the folder of each file source."""
    lines = _complete_lines(files.read(f"offsets/{batch}"))[1:]
    positions = {}
    for index, line in enumerate(lines):
        if line in lines[:index] and len(files.folders("sources")) < len(lines):
            break  # two uses of one source have one folder, so the numbers of the next folders are unknown
        named = OF_SOURCE.match(line)
        value = OF_SOURCE.sub("", line)
        offset = json.loads(value) if value.startswith("{") else None
        if offset is not None and set(offset) == {"logOffset"}:
            positions[line[: named.end() - 1] if named else str(index)] = int(offset["logOffset"])
    return positions


def _problem_of_source(
    files: Files, folder: str, position: int | None, is_of_files: bool, *, has_failed: bool
) -> str | None:
    log = _file_log(files, folder)
    newest = max(log, default=-1)
    if is_of_files and position is not None and newest < position:
        return f"{_at(files, f'{folder}/{position}')} is missing, but the offsets of the query need it"
    gap = _gap(log, 0) if is_of_files else None
    if gap is not None:
        return f"{_at(files, f'{folder}/{gap}')} is missing"
    require = _require_complete if is_of_files else _require_known
    return _problem_of_content(files, folder, log, require, has_failed=has_failed)


def _problem_of_sink(
    files: Files, sink: Files, newest: int | None, committed: int | None, *, has_failed: bool
) -> str | None:
    log = _file_log(sink, "")
    if not log:
        return None  # a new folder
    ahead, first = max(log), -1 if newest is None else newest
    other = "start the query with a new checkpoint and another folder for the output"
    if ahead > first:
        return (
            f"{_at(sink, log[ahead])} is newer than the checkpoint ({files.uri}), whose newest batch is {'none' if newest is None else newest}: "
            f"the sink would skip all batches up to {ahead}, and their rows would be lost. Restore the checkpoint of the same time, or {other}"
        )
    is_behind = committed is not None and ahead < committed
    if committed is not None and is_behind and not (ahead == committed - 1 and _is_repartition(files, committed)):
        missing = ahead + 1
    else:
        gap = _gap(log, 0 if has_failed else min(log))
        if gap is None:
            problem = _problem_of_content(sink, "", log, _require_complete, has_failed=has_failed)
            return problem and f"{problem}: {BACKUP}, or {other}"
        missing = gap
    return (
        f"{_at(sink, str(missing))} is missing, so that the output cannot be read, and the sink cannot compact its log: {BACKUP}. Without a "
        f"backup, write the line v1 into it; the files of batch {missing}, and for a compact file of all batches before, then do not belong to the output. Or {other}"
    )


def _is_repartition(files: Files, batch: int) -> bool:
    """Return whether a batch has repartitioned the state. The driver adds it to the log of the sink afterwards."""
    counts = []
    for number in {batch - 1, batch} & _numbers(files.sizes("offsets")):
        metadata = _complete_lines(files.read(f"offsets/{number}"))[0]
        counts.append(json.loads(metadata).get("conf", {}).get(SHUFFLE_PARTITIONS) if metadata else None)
    return len(counts) == 2 and None not in counts and counts[0] != counts[1]  # noqa: PLR2004


def _file_log(files: Files, folder: str) -> dict[int, str]:
    """Return the names of the files of a log by their numbers, beginning with the newest compact file."""
    names = {int(match[1]): match for name in files.sizes(folder) if (match := FILE_LOG.fullmatch(name))}
    compact = max((number for number, match in names.items() if match[2]), default=0)
    return {number: match[0] for number, match in sorted(names.items()) if number >= compact}


def _gap(log: Mapping[int, str], first: int) -> int | None:
    """Return the first number that a log lacks, None for a complete log. A log begins with a compact file, or with the given number."""
    begin = min(log) if next(iter(log.values()), "").endswith(".compact") else first
    return next((number for number in range(begin, max(log, default=-1)) if number not in log), None)


def _problem_of_content(
    files: Files, folder: str, log: Mapping[int, str], require: Callable[[bytes], None], *, has_failed: bool
) -> str | None:
    """Return which file of a log is empty, or, after a failure, which one is cut."""
    for name in log.values():
        file = f"{folder}/{name}" if folder else name
        size = files.sizes(folder)[name]
        if not size:
            return f"{_at(files, file)} is empty"
        reason = _reason(files, file, require) if has_failed and size <= MAX_FILE_LOG_BYTES else None
        if reason:
            return f"{_at(files, file)} {reason}"
    return None


def _require_complete(content: bytes) -> None:
    _complete_lines(content)


def _require_known(content: bytes) -> None:
    """Require complete lines if the log of a source that does not read files has the format of Spark's logs."""
    if VERSION.match(content.lstrip(b"\0")):
        _complete_lines(content)


# ---- state ----------------------------------------------------------------------------------------------------------


def find_damaged_state(
    files: Files,
    version: int | None,
    *,
    repairs: bool = True,
    partitions: int | None = None,
    first: int | None = None,
    until: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> str | None:
    """Return which file of the state is missing or damaged, and what to do; None without damage, and if the search takes too long.

    Args:
        files: files of the checkpoint.
        version: version of the state, which is the number of batches before; None for the version that the next batch needs.
        repairs: whether Spark uses an older snapshot instead of a damaged one.
        partitions: number of state partitions, None if unknown.
        first: partition to search first, None if unknown.
        until: end of the search by the clock, None without a limit.
        clock: the clock.
    """
    needed = _needed_version(files) if version is None else version
    if not needed:
        return None
    for operator in sorted(filter(str.isdigit, files.folders("state")), key=int):
        problem = _problem_of_operator(files, f"state/{operator}")
        if problem:
            return f"{problem}; the state of operator {operator} cannot be loaded: {BACKUP}, start from a copy of the checkpoint, {NEW_CHECKPOINT}"
        found = {int(name) for name in files.folders(f"state/{operator}") if name.isdigit()}
        expected = found if partitions is None else set(range(partitions))
        stores = sorted({name for partition in found for name in _stores(files, operator, partition)})
        for partition in sorted(expected, key=lambda number: (number != first, number)):
            for store in stores:
                if until is not None and clock() > until:
                    return None
                problem = _problem_of_store(files, f"state/{operator}/{partition}{store}", needed, repairs=repairs)
                if problem:
                    where = f"operator {operator}, partition {partition}{store and f', store {store[1:]}'}, version {needed}"
                    return f"{problem}; the state of {where} cannot be loaded: {BACKUP}, start from a copy of the checkpoint, {NEW_CHECKPOINT}"
    return None


def _problem_of_operator(files: Files, folder: str) -> str | None:
    """Return which file that describes the state of an operator is empty or cut."""
    schemas = [f"{folder}/_stateSchema/{store}" for store in files.folders(f"{folder}/_stateSchema")]
    for place in (f"{folder}/_metadata", f"{folder}/_metadata/v2", f"{folder}/0/_metadata", *schemas):
        for name, size in files.sizes(place).items():
            file, is_text = f"{place}/{name}", place.startswith(f"{folder}/_metadata")
            reason = (_reason(files, file, _require_log) if is_text else None) if size else "is empty"
            if reason:
                return f"{_at(files, file)} {reason}"
    return None


def _needed_version(files: Files) -> int:
    commits, offsets = _numbers(files.sizes("commits")), _numbers(files.sizes("offsets"))
    newest = max(offsets, default=0)
    return newest + 1 if newest in commits else newest


def _stores(files: Files, operator: str, partition: int) -> Iterator[str]:
    """Yield the folders of the stores of a partition, relative to the partition: "" for the only store, one for each store of a join."""
    folder = f"state/{operator}/{partition}"
    if _versions(files.sizes(folder)):
        yield ""
    for name in files.folders(folder):
        if _versions(files.sizes(f"{folder}/{name}")):
            yield f"/{name}"


def _versions(names: Iterable[str]) -> list[tuple[int, str, str]]:
    """Return version, kind and name of each file of a store."""
    return [(int(match[1]), match[2], name) for name in names if (match := STATE_FILE.fullmatch(name))]


def _problem_of_store(files: Files, folder: str, version: int, *, repairs: bool) -> str | None:
    """Return why a version of a store cannot be loaded: the problem of its newest snapshot and the changes since, unless an older one is complete."""
    sizes = files.sizes(folder)
    found = _versions(sizes)
    snapshots = sorted({number for number, kind, _ in found if kind in SNAPSHOTS and number <= version}, reverse=True)
    problems = (_problem_of_chain(files, folder, found, start, version) for start in [*snapshots, 0])
    newest = next(problems)
    return newest if newest is None or not repairs or all(problems) else None


def _problem_of_chain(
    files: Files, folder: str, found: list[tuple[int, str, str]], start: int, version: int
) -> str | None:
    """Return why a snapshot and the changes from it to a version cannot be loaded, or None. The state before the first batch is empty."""
    for number in range(max(start, 1), version + 1):
        is_snapshot = number == start
        names = [name for at, kind, name in found if at == number and (kind in SNAPSHOTS) == is_snapshot]
        if not names:
            return f"{_at(files, folder)} has neither a snapshot nor the changes of version {number}"
        for name in names:
            reason = _problem_of_state_file(files, folder, name)
            if reason:
                return f"{_at(files, f'{folder}/{name}')} {reason}"
    return None


def _problem_of_state_file(files: Files, folder: str, name: str) -> str | None:
    if not files.sizes(folder)[name]:
        return "is empty"
    try:
        files.verify(f"{folder}/{name}")
        if name.endswith(".zip"):
            return _problem_of_archive(files, folder, files.read(f"{folder}/{name}"))
        files.decompress(f"{folder}/{name}")
    except UnreadableContentError as error:
        return f"is cut or damaged ({error})"
    return None


def _problem_of_archive(files: Files, folder: str, content: bytes) -> str | None:
    """Return what is wrong with a snapshot of RocksDB: an archive, and the files of the table that its metadata names."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.testzip() is not None:
                return "is damaged"
            text = archive.read("metadata").decode() if "metadata" in archive.namelist() else ""
    except (zipfile.BadZipFile, EOFError, ValueError, OSError) as error:
        return f"is cut or damaged ({error})"
    sizes: Mapping[str, int] | None = None
    for table in _tables(text):
        sizes = files.sizes(f"{folder}/SSTs") if sizes is None else sizes
        file, size = str(table.get("dfsSstFileName")), table.get("sizeBytes")
        if file not in sizes:
            return f"needs {_at(files, f'{folder}/SSTs/{file}')}, which is missing"
        if size is not None and sizes[file] != size:
            return f"needs {_at(files, f'{folder}/SSTs/{file}')}, which has {sizes[file]} instead of {size} bytes"
    return None


def _tables(metadata: str) -> list[dict[str, Any]]:
    """Return the tables that the metadata of a snapshot names; none if the format is unknown."""
    try:
        found = json.loads(metadata.partition("\n")[2])
    except ValueError:
        return []
    return [table for table in found.get("sstFiles", []) if isinstance(table, dict)]


def _numbers(names: Iterable[str]) -> set[int]:
    """Return the numbers of batches; temporary files and checksums have other names."""
    return {int(name) for name in names if name.isdecimal()}


def _at(files: Files, file: str) -> str:
    return f"{files.uri}/{file}"
