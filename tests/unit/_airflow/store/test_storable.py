"""Text that every database of Airflow can store."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.storable import REPLACEMENT, storable
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.view import TaskKey, Urls
from airflow_adaptive._engine.publishing.publisher import job_view
from tests.lab.fakes.manual_clock import ManualClock
from tests.lab.scenario import Scenario
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.published_documents import history

TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(["a\x00b", "\ud800", "\udfff\x00", "🚀"])
JSON = st.recursive(
    TEXT | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


@given(JSON)
def test_result_is_utf_8_without_nul(value: object) -> None:
    text = json.dumps(storable(value), ensure_ascii=False)
    assert text.encode()
    assert "\\u0000" not in text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_other_text_does_not_change(text: str) -> None:
    assert storable({text: [text, (text,)]}) == {text: [text, [text]]}


def test_replaced_characters_are_visible() -> None:
    assert storable({"a\x00": ["\ud800b", 1]}) == {f"a{REPLACEMENT}": [f"{REPLACEMENT}b", 1]}


def test_published_documents_can_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of a failure may quote binary data, and the store of a job repeats a write until it succeeds."""
    airflow, clock = FakeComms.install(monkeypatch), ManualClock()
    store = AirflowJobStore("job", TaskKey(dag_id="d", task_id="t", run_id="r"), clock, StoreAccess(clock))
    job = Scenario().given_executing(2)
    job.when_query_failed(Failure(error_class="ValueError", message="row 'a\x00b' of file \udcff"))
    view = job_view(job.state, history(job), Urls(), "attempt")

    async def publish() -> None:
        await store.publish(view)
        await store.finish()

    asyncio.run(publish())
    assert airflow.xcoms["failures"][0]["failure"] == "ValueError: row 'a\ufffdb' of file \ufffd"
    written = json.dumps([airflow.xcoms, airflow.asset_states], ensure_ascii=False)
    assert "\\u0000" not in written
    assert written.encode()
