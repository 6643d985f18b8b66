"""The name of an aggregation in a checkpoint. The real test is a rescale (tests/integration/kafka/test_real_time_mode.py)."""

from __future__ import annotations

import json

from airflow_adaptive.job.state.repartition import rename_operator

STORES = {"stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}]}


def metadata(name: str) -> str:
    return "v1\n" + json.dumps({"operatorInfo": {"operatorId": 3, "operatorName": name}, **STORES})


def test_aggregation_of_real_time_mode_gets_the_name_of_micro_batches() -> None:
    renamed = rename_operator(metadata("StatefulStreamlineAggregate"))
    assert renamed is not None
    version, content = renamed.split("\n")
    assert version == "v1"
    assert json.loads(content) == {"operatorInfo": {"operatorId": 3, "operatorName": "stateStoreSave"}, **STORES}


def test_other_operators_keep_their_names() -> None:
    assert rename_operator(metadata("stateStoreSave")) is None
    assert rename_operator(metadata("dedupe")) is None
