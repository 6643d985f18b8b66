"""A checkpoint is accessed through Spark's classes, which are replaced by the content of a checkpoint in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from airflow_adaptive.job.spark_internals import class_name
from airflow_adaptive.job.state.checkpoint import PARTITIONS, Checkpoint, CheckpointHead, StateStore
from tests.support.driver.fake_spark import Maybe

VERSION = "4.3.0"

URI = "file:///jobs/flights/checkpoints/departures"


@dataclass(frozen=True)
class Path:
    """In place of `org.apache.hadoop.fs.Path`."""

    uri: str

    def toUri(self) -> str:
        return quote(self.uri, safe=":/%")

    def getName(self) -> str:
        return self.uri.rpartition("/")[2]


@dataclass
class Written:
    """The content of a checkpoint.

    Attributes:
        offsets: number of state partitions by batch that began; None if the batch stored none.
        commits: batches that were committed, and whether the commit names the state stores (format 2).
        stores: names of the state stores by operator, with the operator's name.
        files: names of the files of the offset log, None if it has no folder.
    """

    offsets: dict[int, int | None] = field(default_factory=dict)
    commits: dict[int, bool] = field(default_factory=dict)
    stores: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    files: list[str] | None = None

    def read(self, uri: str = URI) -> Checkpoint:
        classes = {
            class_name("OffsetSeqLog", VERSION): self.offset_log,
            class_name("CommitLog", VERSION): self.commit_log,
            class_name("CheckpointFileManager", VERSION): SimpleNamespace(create=self.file_manager),
            class_name("StateMetadataPartitionReader"): self.metadata_reader,
            "org.apache.spark.util.SerializableConfiguration": lambda conf: conf,
            "org.apache.hadoop.fs.Path": Path,
        }
        session = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: "conf"))
        spark: Any = SimpleNamespace(version=VERSION, _jvm=SimpleNamespace(**classes), _jsparkSession=session)
        return Checkpoint(spark, uri)

    def offset_log(self, _: object, path: str, read_only: bool) -> Any:
        assert (path, read_only) == (f"{URI}/offsets", True)
        return SimpleNamespace(
            getLatestBatchId=lambda: Maybe(max(self.offsets, default=None)), offsetSeqMetadataForBatchId=self.metadata
        )

    def metadata(self, batch: int) -> Maybe:
        if batch not in self.offsets:
            return Maybe(None)
        conf = {} if self.offsets[batch] is None else {PARTITIONS: str(self.offsets[batch])}
        return Maybe(SimpleNamespace(conf=lambda: SimpleNamespace(get=lambda name: Maybe(conf.get(name)))))

    def commit_log(self, _: object, path: str, read_only: bool) -> Any:
        assert (path, read_only) == (f"{URI}/commits", True)
        return SimpleNamespace(
            getLatestBatchId=lambda: Maybe(max(self.commits, default=None)),
            get=lambda batch: Maybe(SimpleNamespace(stateUniqueIds=lambda: Maybe(self.commits[batch] or None))),
        )

    def file_manager(self, folder: Path, conf: str) -> Any:
        assert (folder.uri, conf) == (f"{URI}/offsets", "conf")
        return SimpleNamespace(
            exists=lambda path: path is folder and self.files is not None,
            list=lambda path: [self.file(path, name) for name in self.files or ()],
            delete=lambda path: (self.files or []).remove(path.getName()),
        )

    def file(self, folder: Path, name: str) -> Any:
        assert self.files is not None, "Spark raises for a folder that does not exist"
        return SimpleNamespace(getPath=lambda: Path(f"{folder.uri}/{name}"))

    def metadata_reader(self, uri: str, conf: str, batch: int) -> Any:
        assert (uri, conf, batch) == (URI, "conf", max(self.commits))
        return SimpleNamespace(allOperatorStateMetadata=lambda: [operator(*item) for item in self.stores.items()])


def operator(identity: tuple[int, str], names: list[str]) -> Any:
    number, kind = identity
    stores = [SimpleNamespace(storeName=lambda name=name: name) for name in names]
    return SimpleNamespace(
        operatorInfo=lambda: SimpleNamespace(operatorId=lambda: number, operatorName=lambda: kind),
        stateStoreInfo=lambda: stores,
    )


@pytest.mark.parametrize(
    ("written", "head"),
    [
        (Written(), None),
        (Written({0: 4}), CheckpointHead(newest=0, committed=None, partitions=4, previous_partitions=None)),
        (
            Written({6: 2, 7: 4}, {6: True, 7: True}),
            CheckpointHead(newest=7, committed=7, partitions=4, previous_partitions=2),
        ),
        (Written({7: 4}, {6: True}), CheckpointHead(newest=7, committed=6, partitions=4, previous_partitions=None)),
        (
            Written({6: None, 7: None}, {6: False, 7: False}),
            CheckpointHead(newest=7, committed=7, partitions=None, previous_partitions=None),
        ),
    ],
    ids=["no batch", "first batch", "committed", "before purged", "of an old Spark"],
)
def test_head_is_the_newest_batch_with_its_state_partitions(written: Written, head: CheckpointHead | None):
    assert written.read().head() == head


def test_stores_are_those_of_each_operator_as_of_the_batch():
    written = Written(
        {3: 4}, {3: True}, {(0, "symmetricHashJoin"): ["left", "right"], (1, "stateStoreSave"): ["default"]}
    )
    assert written.read().stores(3) == [
        StateStore(operator=0, kind="symmetricHashJoin", name="left"),
        StateStore(operator=0, kind="symmetricHashJoin", name="right"),
        StateStore(operator=1, kind="stateStoreSave", name="default"),
    ]


@pytest.mark.parametrize(("names_stores", "version"), [(True, 2), (False, 1)])
def test_format_is_2_if_the_commit_names_the_state_stores(names_stores: bool, version: int):
    assert Written({3: 4}, {3: names_stores}).read().format_of(3) == version


@pytest.mark.parametrize(("name", "escaped"), [("departures", False), ("depart ures", True), ("ab%C3%BC", False)])
def test_path_is_escaped_if_its_uri_differs(name: str, escaped: bool):
    assert Written().read(f"file:///jobs/{name}").has_escaped_path is escaped


TEMPORARY = ".0.489fa5fc-87a7-41a7-b070-d489cf31fbb9.tmp"


@pytest.mark.parametrize(
    ("files", "left"),
    [
        (None, None),
        ([], []),
        ([TEMPORARY, TEMPORARY.replace("489", "490")], []),
        ([TEMPORARY, ".7.489fa5fc.tmp", "notes.0.1.tmp", "0"], [".7.489fa5fc.tmp", "notes.0.1.tmp", "0"]),
    ],
    ids=["no log", "empty log", "killed in the first batch", "files of another origin"],
)
def test_only_temporary_files_of_the_first_offsets_are_removed(files: list[str] | None, left: list[str] | None):
    written = Written(files=files)
    written.read().remove_partial_offsets()
    assert written.files == left
