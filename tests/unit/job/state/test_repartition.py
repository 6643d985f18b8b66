"""What a checkpoint's head means, and how a refusal is reported; without Spark."""

from __future__ import annotations

import json

import pytest

from airflow_adaptive._core.protocol.failures import report_build_failure, report_exception
from airflow_adaptive.job.state.checkpoint import CheckpointHead, is_of_batch
from airflow_adaptive.job.state.repartition import RepartitionError, operators_of, rename_operator


@pytest.mark.parametrize(
    ("head", "cut", "repartitioned", "unfinished"),
    [
        (CheckpointHead(newest=0, committed=None, partitions=2, previous_partitions=None), True, False, None),
        (CheckpointHead(newest=7, committed=7, partitions=2, previous_partitions=2), False, False, None),
        (CheckpointHead(newest=7, committed=6, partitions=2, previous_partitions=2), True, False, None),
        (CheckpointHead(newest=7, committed=7, partitions=4, previous_partitions=2), False, True, None),
        (CheckpointHead(newest=7, committed=6, partitions=4, previous_partitions=2), True, True, 4),
        (CheckpointHead(newest=7, committed=6, partitions=4, previous_partitions=None), True, False, None),
        (CheckpointHead(newest=7, committed=6, partitions=None, previous_partitions=2), True, False, None),
    ],
    ids=["first batch", "at rest", "cut", "repartitioned", "repartition cut", "before purged", "of an old Spark"],
)
def test_a_batch_with_another_number_than_the_one_before_is_a_repartition(head, cut, repartitioned, unfinished):
    assert (head.incomplete, head.repartitioned, head.unfinished_repartition) == (cut, repartitioned, unfinished)


STATE = "state info [ checkpoint = <unknown>, runId = 1, opId = {}, ver = 0, numPartitions = 2]"


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ([], []),
        (["+- Exchange hashpartitioning(key#0, 2), REQUIRED_BY_STATEFUL_OPERATOR"], []),
        (["*(4) StateStoreSave [key#0], 0", "   +- StateStoreRestore [key#0], 0"], ["stateStoreSave"]),
        (["StateStoreSave [key#0], 0", "   +- StreamingDeduplicate [key#3], 1"], ["stateStoreSave", "dedupe"]),
        (["StreamingGlobalLimit 5, 1", "+- StreamingDeduplicate [key#3], 0"], ["dedupe"]),
        (["StreamingDeduplicate [key#3], 1", "+- StateStoreOfTomorrow [key#0], 0"], None),
    ],
    ids=["nothing", "stateless", "reader and writer", "several", "limit", "unknown"],
)
def test_stateful_operators_are_read_from_an_explained_plan(lines, kinds):
    plan = "\n".join(line[:-1] + STATE.format(line[-1]) if line[-1].isdigit() else line for line in lines)
    assert operators_of(plan) == kinds


def test_a_rejection_is_reported_with_its_own_message():
    error = RepartitionError("state in file:///jobs/flights can't have 0 partition(s): use at least 1")
    report = report_build_failure(error)
    assert report.message.startswith(str(error))
    assert report.error_class.endswith("RepartitionError")
    assert report_exception(error).causes == ("airflow_adaptive.job.state.repartition.RepartitionError",)


# ---- the name of an aggregation in a checkpoint. The real test is a rescale (tests/integration/kafka/test_real_time_mode.py)


STORES = {"stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}]}


def metadata(name: str) -> str:
    return "v1\n" + json.dumps({"operatorInfo": {"operatorId": 3, "operatorName": name}, **STORES})


def test_aggregation_of_real_time_mode_gets_the_name_of_micro_batches() -> None:
    renamed = rename_operator(metadata("StatefulStreamlineAggregate"))
    assert renamed is not None
    version, content = renamed.split("\n")
    assert version == "v1"
    assert json.loads(content) == {"operatorInfo": {"operatorId": 3, "operatorName": "stateStoreSave"}, **STORES}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("offsets/7", True),
        ("offsets/17", False),
        ("commits/7", False),
        ("state/0/1/8.zip", True),
        ("state/0/1/8_0a-1b.zip.crc", True),
        ("state/0/1/left-keyToNumValues/8.changelog", True),
        ("state/0/1/7.zip", False),
        ("state/0/1/18.zip", False),
        ("state/0/1/SSTs/000008-0a-1b.sst", False),
        ("state/0/_metadata/v2/7", True),
        ("state/0/_metadata/v2/8", False),
        ("sources/0/7", False),
    ],
)
def test_files_of_the_batch_of_a_repartition_are_known_by_their_names(name: str, expected: bool) -> None:
    assert is_of_batch(f"file:/state/0/1/8/checkpoints/query/{name}", 7) is expected


def test_other_operators_keep_their_names() -> None:
    assert rename_operator(metadata("stateStoreSave")) is None
    assert rename_operator(metadata("dedupe")) is None
