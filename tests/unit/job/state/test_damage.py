"""Missing and damaged files of a checkpoint, in a folder that has the layout of Spark's checkpoints."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from airflow_adaptive.job.state.damage import (
    MAX_FILE_LOG_BYTES,
    SEARCH_S,
    DamagedCheckpointError,
    UnreadableContentError,
    find_damage,
    find_damaged_state,
    require_sound_logs,
)

LOADING = "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED Task 1 in stage 4.0 failed"
END = b"end of the stream"


class LocalFiles:
    """A checkpoint in a local folder; a compressed file is complete if it ends with `END`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mismatched: set[str] = set()

    @property
    def uri(self) -> str:
        return "file:/checkpoint"

    def sizes(self, folder: str) -> Mapping[str, int]:
        return {entry.name: entry.stat().st_size for entry in self._entries(folder) if entry.is_file()}

    def folders(self, folder: str) -> list[str]:
        return [entry.name for entry in self._entries(folder) if entry.is_dir()]

    def read(self, file: str) -> bytes:
        return (self.root / file).read_bytes()

    def verify(self, file: str) -> None:
        if file in self.mismatched:
            raise UnreadableContentError(f"it does not match its checksum in {file}.crc")

    def decompress(self, file: str) -> None:
        if not self.read(file).endswith(END):
            raise UnreadableContentError("java.io.EOFException: Stream ended prematurely")

    def _entries(self, folder: str) -> list[Path]:
        path = self.root / folder
        return sorted(path.iterdir()) if path.is_dir() else []


class Checkpoint(LocalFiles):
    """Batches 0 to `newest`, all committed, whose changes are state of two partitions."""

    def __init__(self, root: Path, newest: int = 3) -> None:
        super().__init__(root)
        self.write("metadata", b'{"id":"5a4e7d0e-6b63-4f0c-9c62-2f6d8c1ed7b1"}')
        for batch in range(newest + 1):
            self.write(f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}'.encode())
            self.write(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
            self.write(f"sources/0/{batch}", f'v1\n{{"path":"file:/in/{batch}","batchId":{batch}}}'.encode())

    def write(self, file: str, content: bytes) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def remove(self, file: str) -> None:
        (self.root / file).unlink()

    def cut(self, file: str) -> None:
        content = self.read(file)
        self.write(file, content[: len(content) // 2])

    def with_changes(self, *versions: int, kind: str = "changelog", stores: tuple[str, ...] = ("",)) -> Checkpoint:
        for partition in (0, 1):
            for store in stores:
                for version in versions:
                    self.write(f"state/0/{partition}/{store}/{version}.{kind}", b"rows, " + END)
        return self

    def with_archives(self, *versions: int) -> Checkpoint:
        """Add snapshots of RocksDB, each with one table."""
        for partition in (0, 1):
            folder = f"state/0/{partition}"
            for version in versions:
                self.write(f"{folder}/SSTs/{version}.sst", b"table")
                table = {"localFileName": "1.sst", "dfsSstFileName": f"{version}.sst", "sizeBytes": 5}
                with zipfile.ZipFile(self.root / folder / f"{version}.zip", "w") as archive:
                    archive.writestr("metadata", f"v1\n{json.dumps({'sstFiles': [table], 'numKeys': 1})}")
                    archive.writestr("MANIFEST-1", "x" * 500)
        return self


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def damage(checkpoint: Checkpoint) -> str:
    with pytest.raises(DamagedCheckpointError) as raised:
        require_sound_logs(checkpoint)
    return str(raised.value)


# ---- before a start -------------------------------------------------------------------------------------------------


def test_complete_checkpoint_is_sound(checkpoint: Checkpoint):
    require_sound_logs(checkpoint)


def test_query_without_a_checkpoint_starts(tmp_path: Path):
    require_sound_logs(LocalFiles(tmp_path / "none"))


def test_first_batch_that_was_interrupted_is_no_damage(tmp_path: Path):
    begun = Checkpoint(tmp_path, newest=0)
    begun.remove("commits/0")
    require_sound_logs(begun)


def test_batch_without_its_commit_runs_again(checkpoint: Checkpoint):
    checkpoint.remove("commits/3")
    require_sound_logs(checkpoint)


@pytest.mark.parametrize("name", [".3.8f2c.tmp", ".4.crc", "4.tmp", "_SUCCESS", ".4.0b1f.TID12.tmp"])
def test_files_that_a_killed_driver_or_the_storage_leaves_are_no_damage(checkpoint: Checkpoint, name: str):
    for folder in ("offsets", "commits"):
        checkpoint.write(f"{folder}/{name}", b"")
    require_sound_logs(checkpoint)


def test_old_logs_that_spark_does_not_read_are_no_damage(checkpoint: Checkpoint):
    for file in ("offsets/0", "offsets/1", "commits/0", "commits/2"):
        checkpoint.write(file, b"")
    checkpoint.remove("offsets/0")
    require_sound_logs(checkpoint)


@pytest.mark.parametrize("content", [b"", b"v1", b"v1\n", b'v1\n{"nextBatch', b"\x00\x00\x00", b"\xff\xfe"])
def test_damaged_newest_commit_is_named_with_the_way_to_run_its_batch_again(checkpoint: Checkpoint, content: bytes):
    checkpoint.write("commits/3", content)
    message = damage(checkpoint)
    assert "file:/checkpoint/commits/3 is" in message
    assert "delete it, so that batch 3 runs again" in message


def test_commit_after_the_newest_offsets_would_repeat_a_batch(checkpoint: Checkpoint):
    checkpoint.remove("offsets/3")
    message = damage(checkpoint)
    assert "file:/checkpoint/offsets/3 is missing" in message
    assert "delete commits/3 as well, and expect that batch 3 runs again" in message


def test_commits_without_any_offsets_would_start_from_the_beginning(checkpoint: Checkpoint):
    for batch in range(4):
        checkpoint.remove(f"offsets/{batch}")
    assert "file:/checkpoint/offsets/3 is missing" in damage(checkpoint)


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize("content", [b"", b"v1\n", b'v1\n{"batchWatermarkMs":0}\n{"logOff', b"1", None])
def test_offsets_that_spark_reads_must_be_complete(checkpoint: Checkpoint, batch: int, content: bytes | None):
    if content is None:
        checkpoint.remove(f"offsets/{batch}")
    else:
        checkpoint.write(f"offsets/{batch}", content)
    assert f"file:/checkpoint/offsets/{batch} is" in damage(checkpoint)


@pytest.mark.parametrize("file", ["commits/3", "offsets/3", "metadata"])
def test_folder_with_the_name_of_a_file_is_named(checkpoint: Checkpoint, file: str):
    checkpoint.remove(file)
    (checkpoint.root / file).mkdir()
    assert f"file:/checkpoint/{file} is a folder instead of a file" in damage(checkpoint)


def test_asynchronous_progress_leaves_gaps_in_the_offsets(checkpoint: Checkpoint):
    checkpoint.remove("offsets/2")
    require_sound_logs(checkpoint, is_contiguous=False)


def test_offset_of_a_source_need_not_be_json(checkpoint: Checkpoint):
    checkpoint.write("offsets/3", b'v1\n{"batchWatermarkMs":0}\n-\n42\nposition of my source')
    require_sound_logs(checkpoint)


@pytest.mark.parametrize("content", [b"", b'{"id":', b"[]", b"{}", b"null"])
def test_damaged_id_of_the_query_is_named_with_its_content(checkpoint: Checkpoint, content: bytes):
    checkpoint.write("metadata", content)
    message = damage(checkpoint)
    assert "file:/checkpoint/metadata is" in message
    assert '{"id":"<id of the query>"}' in message


def test_file_with_a_wrong_checksum_is_damaged(checkpoint: Checkpoint):
    def read(file: str) -> bytes:
        raise UnreadableContentError("Checksum error: file:/checkpoint/commits/3")

    checkpoint.read = read  # type: ignore[method-assign]
    assert "Checksum error" in damage(checkpoint)


def test_outage_of_the_storage_is_no_damage(checkpoint: Checkpoint):
    def read(file: str) -> bytes:
        raise OSError("connection refused")

    checkpoint.read = read  # type: ignore[method-assign]
    with pytest.raises(OSError, match="connection refused"):
        require_sound_logs(checkpoint)


# ---- after a failure ------------------------------------------------------------------------------------------------


def test_failure_without_damage_is_not_explained(checkpoint: Checkpoint):
    checkpoint.with_changes(1, 2, 3, 4)
    assert find_damage(checkpoint, LOADING) is None


def test_damaged_log_explains_any_failure(checkpoint: Checkpoint):
    checkpoint.write("commits/3", b"")
    assert "commits/3 is empty" in (find_damage(checkpoint, "IllegalStateException") or "")


@pytest.mark.parametrize("name", ["7", "9.compact"])
def test_empty_log_of_a_source_is_named(checkpoint: Checkpoint, name: str):
    checkpoint.write(f"sources/1/{name}", b"")
    assert f"sources/1/{name} is empty" in (find_damage(checkpoint, "X") or "")
    assert f"sources/1/{name} is empty" in damage(checkpoint)


def test_empty_marker_of_a_source_is_no_damage(checkpoint: Checkpoint):
    checkpoint.write("sources/0/_ready", b"")
    assert find_damage(checkpoint, "X") is None


def test_state_is_searched_only_after_a_failure_that_it_may_have_caused(checkpoint: Checkpoint):
    checkpoint.with_changes(1, 2, 3, 4).cut("state/0/1/4.changelog")
    assert find_damage(checkpoint, "ValueError: bad row") is None
    message = find_damage(checkpoint, LOADING)
    assert message is not None
    assert "state/0/1/4.changelog is cut or damaged (java.io.EOFException: Stream ended prematurely)" in message
    assert "operator 0, partition 1, version 4" in message


def test_search_begins_with_the_partition_of_the_failed_task_and_ends_in_time(checkpoint: Checkpoint):
    checkpoint.with_changes(1, 2, 3, 4).cut("state/0/0/4.changelog")
    checkpoint.cut("state/0/1/4.changelog")
    assert "partition 1" in (find_damage(checkpoint, LOADING) or "")
    times = iter([0.0, SEARCH_S + 1])
    assert find_damage(checkpoint, LOADING, clock=lambda: next(times)) is None


def test_batch_that_failed_needs_the_state_before_it(checkpoint: Checkpoint):
    checkpoint.with_changes(1, 2, 3, 4)
    checkpoint.write("offsets/4", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}')
    assert find_damage(checkpoint, LOADING) is None
    checkpoint.remove("state/0/0/4.changelog")
    assert "has neither a snapshot nor the changes of version 4" in (find_damage(checkpoint, LOADING) or "")


# ---- the logs of file sources and of a file sink ---------------------------------------------------------------------


def entry(batch: int) -> bytes:
    return f'v1\n{{"path":"file:/in/{batch}","batchId":{batch}}}'.encode()


def sink_with(root: Path, *names: str) -> Checkpoint:
    """Return the metadata log of a file sink with these files."""
    sink = Checkpoint(root, newest=-1)
    sink.remove("metadata")
    for name in names:
        sink.write(name, entry(int(name.partition(".")[0])))
    return sink


@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_gap_in_the_log_of_a_file_source_is_found_before_a_start(checkpoint: Checkpoint, missing: int):
    checkpoint.remove(f"sources/0/{missing}")
    message = damage(checkpoint)
    assert f"file:/checkpoint/sources/0/{missing} is missing" in message
    assert "which files it has read" in message


def test_source_without_any_log_would_read_all_files_twice(checkpoint: Checkpoint):
    for batch in range(4):
        checkpoint.remove(f"sources/0/{batch}")
    (checkpoint.root / "sources/0").rmdir()
    assert "file:/checkpoint/sources/0/3 is missing, but the offsets of the query need it" in damage(checkpoint)


def test_log_of_a_source_begins_with_its_newest_compact_file(checkpoint: Checkpoint):
    checkpoint.write("offsets/4", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":11}')
    for name in ("9.compact", "10", "11"):
        checkpoint.write(f"sources/0/{name}", entry(9))
    checkpoint.remove("sources/0/1")
    require_sound_logs(checkpoint)
    checkpoint.remove("sources/0/9.compact")
    assert "sources/0/1 is missing" in damage(checkpoint)
    for number in (0, 2, 3):
        checkpoint.remove(f"sources/0/{number}")
    assert "sources/0/0 is missing" in damage(checkpoint)


def test_source_may_know_more_files_than_the_offsets(checkpoint: Checkpoint):
    checkpoint.write("sources/0/4", entry(4))
    require_sound_logs(checkpoint)


def test_sources_with_names_have_folders_with_these_names(checkpoint: Checkpoint):
    checkpoint.write("offsets/3", b'v2\n{"batchWatermarkMs":0}\n0:{"logOffset":3}\norders:{"logOffset":1}\nidle:-')
    assert "sources/orders/1 is missing" in damage(checkpoint)
    for number in (0, 1):
        checkpoint.write(f"sources/orders/{number}", entry(number))
    require_sound_logs(checkpoint)
    checkpoint.write("offsets/3", b'v2\n{"batchWatermarkMs":0}\n0:{"logOffset":3}\norders:{"logOff')
    assert "offsets/3 is cut" in damage(checkpoint)


def test_source_that_is_used_twice_has_one_folder(checkpoint: Checkpoint):
    checkpoint.write("offsets/3", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}\n{"logOffset":3}\n{"logOffset":9}')
    require_sound_logs(checkpoint)


def test_initial_offsets_of_other_sources_are_no_log_of_files(checkpoint: Checkpoint):
    checkpoint.write("offsets/3", b'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":12}}\n17\n-')
    checkpoint.write("sources/0/0", b'\0v1\n{"orders":{"0":0}}')
    checkpoint.write("sources/1/5", b"a format of its own {")
    checkpoint.remove("sources/0/2")
    require_sound_logs(checkpoint)
    assert find_damage(checkpoint, "X") is None
    checkpoint.write("sources/0/0", b'\0v1\n{"orders":{"0"')
    assert "sources/0/0 is cut or damaged" in (find_damage(checkpoint, "X") or "")


def test_log_of_files_is_read_after_a_failure_unless_it_is_large(checkpoint: Checkpoint):
    checkpoint.write("sources/0/1", entry(1)[:-3])
    require_sound_logs(checkpoint)
    assert "sources/0/1 is cut or damaged" in (find_damage(checkpoint, "X") or "")
    checkpoint.write("sources/0/1", entry(1)[:-3] + b" " * MAX_FILE_LOG_BYTES)
    assert find_damage(checkpoint, "X") is None


def test_sink_with_each_batch_is_sound(checkpoint: Checkpoint, tmp_path: Path):
    for names in (("0", "1", "2", "3"), ("1.compact", "2", "3"), ()):
        sink = sink_with(tmp_path / "-".join(("sink", *names)), *names)
        require_sound_logs(checkpoint, sink=sink)
        assert find_damage(checkpoint, "X", sink=sink) is None
    checkpoint.write("offsets/4", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}')
    require_sound_logs(checkpoint, sink=sink_with(tmp_path / "begun", "1.compact", "2", "3", "4"))


def test_gap_in_the_log_of_a_sink_is_named_with_what_replaces_the_file(checkpoint: Checkpoint, tmp_path: Path):
    with pytest.raises(
        DamagedCheckpointError,
        match="file:/checkpoint/2 is missing, so that the output cannot be read.*write the line v1",
    ):
        require_sound_logs(checkpoint, sink=sink_with(tmp_path / "sink", "0", "1", "3"))
    with pytest.raises(DamagedCheckpointError, match="file:/checkpoint/3 is missing"):
        require_sound_logs(checkpoint, sink=sink_with(tmp_path / "behind", "1.compact", "2"))


def test_sink_that_begins_with_a_later_batch_is_named_only_after_a_failure(checkpoint: Checkpoint, tmp_path: Path):
    sink = sink_with(tmp_path / "sink", "2", "3")
    require_sound_logs(checkpoint, sink=sink)
    assert "file:/checkpoint/0 is missing" in (find_damage(checkpoint, "X", sink=sink) or "")


def test_sink_that_is_ahead_of_its_checkpoint_would_skip_batches(checkpoint: Checkpoint, tmp_path: Path):
    with pytest.raises(
        DamagedCheckpointError,
        match="5 is newer than the checkpoint .* whose newest batch is 3: the sink would skip all batches up to 5",
    ):
        require_sound_logs(checkpoint, sink=sink_with(tmp_path / "sink", "0", "1", "2", "3", "4", "5"))
    with pytest.raises(DamagedCheckpointError, match="whose newest batch is none"):
        require_sound_logs(LocalFiles(tmp_path / "none"), sink=sink_with(tmp_path / "other", "0"))


def test_sink_gets_the_batch_of_a_repartition_after_its_commit(checkpoint: Checkpoint, tmp_path: Path):
    sink = sink_with(tmp_path / "sink", "0", "1", "2")
    for batch, partitions in ((2, 2), (3, 4)):
        checkpoint.write(
            f"offsets/{batch}",
            f'v1\n{{"conf":{{"spark.sql.shuffle.partitions":"{partitions}"}}}}\n{{"logOffset":2}}'.encode(),
        )
    require_sound_logs(checkpoint, sink=sink)
    sink.remove("2")
    with pytest.raises(DamagedCheckpointError, match="file:/checkpoint/2 is missing"):
        require_sound_logs(checkpoint, sink=sink)


def test_damaged_file_in_the_log_of_a_sink_is_named(checkpoint: Checkpoint, tmp_path: Path):
    sink = sink_with(tmp_path / "sink", "0", "1", "2", "3")
    sink.write("1", b"v1")  # a batch without files
    assert find_damage(checkpoint, "X", sink=sink) is None
    sink.cut("2")
    assert "file:/checkpoint/2 is cut or damaged" in (find_damage(checkpoint, "X", sink=sink) or "")
    sink.write("2", b"")
    with pytest.raises(DamagedCheckpointError, match="file:/checkpoint/2 is empty"):
        require_sound_logs(checkpoint, sink=sink)


# ---- state ----------------------------------------------------------------------------------------------------------


def archive_cut(checkpoint: Checkpoint) -> None:
    checkpoint.cut("state/0/1/4.zip")


def table_missing(checkpoint: Checkpoint) -> None:
    checkpoint.remove("state/0/1/SSTs/4.sst")


def table_cut(checkpoint: Checkpoint) -> None:
    checkpoint.cut("state/0/1/SSTs/4.sst")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (archive_cut, "state/0/1/4.zip is cut or damaged"),
        (table_missing, "state/0/1/4.zip needs file:/checkpoint/state/0/1/SSTs/4.sst, which is missing"),
        (table_cut, "SSTs/4.sst, which has 2 instead of 5 bytes"),
    ],
)
def test_damaged_snapshot_is_named_unless_an_older_one_and_the_changes_since_are_complete(
    checkpoint: Checkpoint, harm: Callable[[Checkpoint], None], message: str
):
    checkpoint.with_archives(2, 4)
    assert find_damaged_state(checkpoint, 4) is None
    harm(checkpoint)
    assert message in (find_damaged_state(checkpoint, 4) or "")
    checkpoint.with_changes(3, 4)
    assert find_damaged_state(checkpoint, 4) is None
    assert message in (find_damaged_state(checkpoint, 4, repairs=False, first=1) or "")
    checkpoint.cut("state/0/1/3.changelog")
    assert message in (find_damaged_state(checkpoint, 4) or "")


def test_archive_without_known_metadata_is_complete_if_it_can_be_read(checkpoint: Checkpoint):
    for partition in (0, 1):
        (checkpoint.root / f"state/0/{partition}").mkdir(parents=True)
        for version, content in ((3, None), (4, "v9\nnot json")):
            with zipfile.ZipFile(checkpoint.root / f"state/0/{partition}/{version}.zip", "w") as archive:
                archive.writestr("metadata" if content else "other", content or "x")
    assert find_damaged_state(checkpoint, 4) is None
    assert find_damaged_state(checkpoint, 3) is None


def test_archive_with_other_content_than_its_checksums_is_damaged(checkpoint: Checkpoint):
    checkpoint.with_archives(4)
    content = checkpoint.read("state/0/1/4.zip")
    checkpoint.write("state/0/1/4.zip", content.replace(b"x" * 500, b"y" * 500))
    assert "state/0/1/4.zip is damaged" in (find_damaged_state(checkpoint, 4) or "")


def test_each_store_of_a_join_and_each_format_is_searched(checkpoint: Checkpoint):
    stores = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
    checkpoint.with_changes(1, 2, 3, 4, kind="delta", stores=stores)
    assert find_damaged_state(checkpoint, 4) is None
    checkpoint.remove("state/0/1/right-keyToNumValues/2.delta")
    message = find_damaged_state(checkpoint, 4)
    assert message is not None
    assert "partition 1, store right-keyToNumValues, version 4" in message
    checkpoint.with_changes(3, kind="snapshot", stores=stores)
    assert find_damaged_state(checkpoint, 4) is None


def test_files_of_format_2_have_ids(checkpoint: Checkpoint):
    for version in (1, 2, 3, 4):
        for partition in (0, 1):
            checkpoint.write(f"state/0/{partition}/{version}_0b1f6c0e-6f0f.changelog", END)
    assert find_damaged_state(checkpoint, 4) is None
    checkpoint.cut("state/0/0/2_0b1f6c0e-6f0f.changelog")
    assert "2_0b1f6c0e-6f0f.changelog is cut" in (find_damaged_state(checkpoint, 4) or "")


def test_missing_partition_is_named(checkpoint: Checkpoint):
    checkpoint.with_changes(1, 2, 3, 4)
    assert find_damaged_state(checkpoint, 4, partitions=2) is None
    assert "partition 2, version 4" in (find_damaged_state(checkpoint, 4, partitions=3) or "")


def test_newer_state_of_a_batch_that_was_not_committed_does_not_matter(checkpoint: Checkpoint):
    checkpoint.with_changes(1, 2, 3, 4, 5).cut("state/0/1/5.changelog")
    assert find_damaged_state(checkpoint, 4) is None


def test_query_without_state_or_without_a_batch_needs_none(checkpoint: Checkpoint, tmp_path: Path):
    assert find_damaged_state(checkpoint, None) is None
    assert find_damaged_state(LocalFiles(tmp_path / "none"), None) is None


@pytest.mark.parametrize("file", ["4.changelog", "4.zip"])
def test_state_that_does_not_match_the_checksum_of_spark_is_damaged(checkpoint: Checkpoint, file: str):
    _ = checkpoint.with_archives(4) if file.endswith(".zip") else checkpoint.with_changes(1, 2, 3, 4)
    checkpoint.mismatched.add(f"state/0/1/{file}")
    message = (
        find_damage(checkpoint, "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED: Checksum verification failed") or ""
    )
    assert f"state/0/1/{file} is cut or damaged (it does not match its checksum in state/0/1/{file}.crc)" in message
    assert "operator 0, partition 1, version 4" in message


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("state/0/_metadata/metadata", b"", "is empty"),
        ("state/0/_metadata/metadata", b'v1\n{"operatorInfo":{', "is cut or damaged"),
        ("state/0/_metadata/v2/2", b"v2\n", "is cut or damaged"),
        ("state/0/0/_metadata/schema", b"", "is empty"),
        ("state/0/_stateSchema/default/0_6f0f", b"", "is empty"),
    ],
)
def test_damaged_description_of_an_operator_is_named(checkpoint: Checkpoint, file: str, content: bytes, reason: str):
    checkpoint.with_changes(1, 2, 3, 4).write("state/0/_metadata/v2/0", b'v2\n{"operatorInfo":{}}')
    checkpoint.write("state/0/_stateSchema/default/0_0b1f", b"binary")
    assert find_damage(checkpoint, "STDS_FAILED_TO_READ_OPERATOR_METADATA") is None
    checkpoint.write(file, content)
    assert f"{file} {reason}; the state of operator 0 cannot be loaded" in (
        find_damage(checkpoint, "STDS_FAILED_TO_READ_OPERATOR_METADATA") or ""
    )


@pytest.mark.parametrize("kind", ["changelog", "zip", "delta", "snapshot"])
def test_empty_file_of_the_state_is_named(checkpoint: Checkpoint, kind: str):
    checkpoint.with_changes(1, 2, 3, kind="delta").with_changes(4, kind=kind)
    checkpoint.decompress = lambda file: None  # type: ignore[method-assign]  # Spark's codec reads an empty file as an empty stream
    checkpoint.write(f"state/0/1/4.{kind}", b"")
    assert f"state/0/1/4.{kind} is empty" in (find_damaged_state(checkpoint, 4, repairs=False, first=1) or "")
