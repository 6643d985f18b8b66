"""What Spark's event log and the checkpoint of a query tell: batches, executors, tasks, and which file was read when."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tests.lab.benchmarks.rescale.measurements import Batch, Order, Span, longest_pause, restart

PROGRESS: Final = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
EXECUTOR_ADDED: Final = "SparkListenerExecutorAdded"
EXECUTOR_REMOVED: Final = "SparkListenerExecutorRemoved"
TASK_ENDED: Final = "SparkListenerTaskEnd"

WANTED: Final = (PROGRESS, EXECUTOR_ADDED, EXECUTOR_REMOVED, TASK_ENDED)

FILE_NUMBER: Final = re.compile(r"(seed)?(\d+)\.csv")


@dataclass(slots=True)
class Events:
    """Of all applications of a job; times in seconds since the epoch.

    Attributes:
        batches: that were committed, in order.
        added: when each executor came; by application and id.
        removed: when it went.
        used: when its first task began.
        failed_tasks: how many.
    """

    batches: list[Batch] = field(default_factory=list)
    added: dict[str, float] = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    failed_tasks: int = 0

    def take(self, application: str, lines: Iterable[str]) -> None:
        """Take up the event log of an application; what it had not yet written when it was killed is missing."""
        for line in lines:
            if not any(f'"{name}"' in line[:120] for name in WANTED):
                continue
            try:
                event = json.loads(line)
            except ValueError:  # the last line of one that was killed
                continue
            self._take(application, event)

    def sort(self) -> None:
        """Bring the batches into the order of time."""
        self.batches.sort(key=lambda batch: batch.span.begin)

    def _take(self, application: str, event: Mapping[str, Any]) -> None:
        match event["Event"]:
            case "SparkListenerExecutorAdded":
                self.added[f"{application}/{event['Executor ID']}"] = event["Timestamp"] / 1000
            case "SparkListenerExecutorRemoved":
                self.removed[f"{application}/{event['Executor ID']}"] = event["Timestamp"] / 1000
            case "SparkListenerTaskEnd":
                info = event["Task Info"]
                name, begun = f"{application}/{info['Executor ID']}", info["Launch Time"] / 1000
                self.used[name] = min(begun, self.used.get(name, begun))
                self.failed_tasks += bool(info["Failed"])
            case _:
                self.batches.extend(_batch(event["progress"]))


def _batch(progress: Mapping[str, Any]) -> Iterator[Batch]:
    """None for a trigger that found nothing new."""
    durations = progress["durationMs"]
    if "addBatch" in durations:
        begin = datetime.fromisoformat(progress["timestamp"]).timestamp()
        (source,) = progress["sources"]
        yield Batch(
            run=progress["runId"],
            number=progress["batchId"],
            span=Span(begin=begin, end=begin + durations["triggerExecution"] / 1000),
            logged=(_logged(source["startOffset"]), _logged(source["endOffset"])),
        )


def _logged(offset: Any) -> int:
    """Number in the log of a file source; -1 before the first."""
    found = re.search(r"\d+", json.dumps(offset)) if offset is not None else None
    return int(found[0]) if found else -1


def read_events(folder: Path) -> Events:
    """All event logs of a folder."""
    events = Events()
    for file in sorted(folder.iterdir()):
        with file.open(errors="replace") as lines:
            events.take(file.name.removesuffix(".inprogress"), lines)
    events.sort()
    return events


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How a rescale took effect; moments in seconds since the epoch.

    Attributes:
        dead_s: how long no batch ran.
        there: when the slots were there, or gone.
        begun: when work on them was begun.
    """

    dead_s: float
    there: float
    begun: float


def query_restarted(events: Events, order: Order) -> Effect:
    """Of a rescale that ends the query and starts the query again (tiers 1 to 3). Raises `ValueError` if the query did not end."""
    old, new = restart(events.batches, order)
    begun = new.span.begin
    came = [at for at in events.added.values() if order.window.begin <= at <= begun]
    return Effect(dead_s=begun - old.span.end, there=max([order.window.begin, *came]), begun=begun)


def executors_changed(events: Events, order: Order) -> Effect:
    """Of a rescale that changes executors alone (tier 0). Raises `ValueError` if there are no other ones, or none was used."""
    dead = longest_pause(events.batches, order.window)
    came = [name for name, at in events.added.items() if order.window.has(at)]
    # The JVM of one that was given back takes seconds to end, in which it has no task any more.
    gone = [at for at in events.removed.values() if order.window.begin <= at < order.steady.end]
    if not came and not gone:
        raise ValueError("no executor came or went")
    if came:
        there, used = events.added[came[0]], events.used.get(came[0])
    else:
        there, used = gone[0], _first_after(events.batches, gone[0])
    if used is None:
        raise ValueError("nothing ran on the new slots")
    return Effect(dead_s=dead, there=there, begun=used)


def _first_after(batches: Iterable[Batch], moment: float) -> float | None:
    return min((batch.span.begin for batch in batches if batch.span.begin >= moment), default=None)


def files_logged(lines: Iterable[str]) -> dict[int, int]:
    """Number in the source's log at which each file of the input was taken, from the lines of that log's files."""
    found = {}
    for line in lines:
        if line.startswith("{"):
            entry = json.loads(line)
            matched = FILE_NUMBER.search(entry["path"])
            if matched is not None and matched[1] is None:
                found[int(matched[2])] = entry["batchId"]
    return found


def read_files_logged(source: Path) -> dict[int, int]:
    """The same from the folder `sources/0` of a checkpoint."""
    files = [file for file in source.iterdir() if file.name.partition(".")[0].isdecimal()]
    return files_logged(line for file in files for line in file.read_text().splitlines())


def seen(batches: Iterable[Batch], logged: Mapping[int, int]) -> dict[int, float]:
    """When the batch in which a file was read was committed, by the number of the file."""
    ends = {number: batch.span.end for batch in batches for number in range(batch.logged[0] + 1, batch.logged[1] + 1)}
    return {file: ends[number] for file, number in logged.items() if number in ends}
