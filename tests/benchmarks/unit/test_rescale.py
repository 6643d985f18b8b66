"""What the benchmark of rescales makes of logs, outputs and figures; `make bench-rescale` gets them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.benchmarks.rescale import case, feed
from tests.benchmarks.rescale.__main__ import CASES, main, remember, remembered
from tests.benchmarks.rescale.case import Case, Found, Subject, all_measured, compare, first_line, orders
from tests.benchmarks.rescale.figures import (
    Batch,
    Order,
    Repeat,
    Span,
    longest_pause,
    median,
    missed,
    percentile,
    period,
    ratio,
    restart,
    worst_delay,
)
from tests.benchmarks.rescale.flink import FlinkMissingError, configuration, find, install, java_options
from tests.benchmarks.rescale.flink_log import JobLog, SinkFiles
from tests.benchmarks.rescale.spark_log import Effect, Events, executors_changed, files_logged, query_restarted, seen
from tests.benchmarks.rescale.table import MET, NOT_JUDGED, NOT_MET, delays, results, tables, targets

ORDER = Order(slots=2, window=Span(begin=10, end=20), steady=Span(begin=20, end=30))


def batch(number: int, begin: float, end: float, run: str = "a") -> Batch:
    return Batch(run=run, number=number, span=Span(begin=begin, end=end), logged=(number - 1, number))


BATCHES = [batch(0, 8, 11), batch(1, 11.5, 13), batch(2, 14, 15, "b"), batch(3, 21, 22, "b"), batch(4, 23, 24, "b")]


# ---- one rescale ----


def test_dead_time_is_from_the_last_batch_of_the_old_run_to_the_first_of_the_new_one():
    old, new = restart(BATCHES, ORDER)
    assert (old.number, new.number) == (1, 2)
    with pytest.raises(ValueError, match="no other run"):
        restart(BATCHES, replace(ORDER, window=ORDER.steady))


def test_longest_pause_is_between_two_batches_of_which_the_later_one_began_in_the_span():
    assert longest_pause(BATCHES, ORDER.window) == 1.0
    assert longest_pause(BATCHES, Span(begin=23, end=30)) == 1.0
    assert longest_pause(BATCHES, Span(begin=40, end=50)) == 0.0


def test_period_is_that_of_batches_while_nothing_is_changed():
    assert period(BATCHES, [ORDER]) == 2.0
    with pytest.raises(ValueError, match="no two batches"):
        period(BATCHES[:3], [ORDER])


@pytest.mark.parametrize(("dead", "pause", "count"), [(0.9, 0.0, 0), (1.0, 0.0, 1), (2.5, 0.6, 1), (0.1, 0.5, 0)])
def test_a_batch_was_missed_if_the_dead_time_would_have_held_it(dead, pause, count):
    assert missed(dead, pause, 1.0) == count


def test_worst_delay_is_of_the_files_that_came_in_the_span_and_all_of_them_must_have_come_out():
    came = {0: 9.9, 1: 10.0, 2: 19.0, 3: 20.0}
    assert worst_delay(came, {0: 50.0, 1: 13.0, 2: 20.0, 3: 60.0}, ORDER.window) == 3.0
    with pytest.raises(ValueError, match=r"never came out: \[2\]"):
        worst_delay(came, {1: 13.0}, ORDER.window)
    with pytest.raises(ValueError, match="of the files \\[\\]"):
        worst_delay(came, {}, Span(begin=0, end=1))


# ---- statistics ----


def test_percentile_lies_between_two_values():
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([0, 10], 0.95) == pytest.approx(9.5)
    assert percentile([7], 0.95) == 7


def test_intervals_hold_the_median_and_are_the_same_each_time():
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    found = median(values)
    assert found == median(values)
    assert 1 <= found.low < found.value == 3 < found.high <= 100
    assert median([5.0] * 10) == replace(found, value=5, low=5, high=5)


def test_a_ratio_draws_from_both_samples_and_has_no_sense_to_nothing():
    found = ratio([2.0, 2.0], [1.0, 4.0])
    assert found is not None
    assert (found.low, found.value, found.high) == (0.5, 0.8, 2.0)
    assert ratio([1.0], [0.0]) is None


# ---- the input and what must come of it ----


def test_files_have_the_same_keys_each_time_and_the_seed_has_each_key_once(tmp_path):
    assert feed.keys_of(3, 100) == feed.keys_of(3, 100) != feed.keys_of(4, 100)
    seeded = [key for number in range(-feed.SEEDS, 0) for key in feed.keys_of(number, 100)]
    assert sorted(seeded) == list(range(100))
    folder = tmp_path / "in"
    folder.mkdir()
    feed.put(folder, -1, 10)
    feed.put(folder, 5, 10)
    assert sorted(file.name for file in folder.iterdir()) == ["000005.csv", "seed1.csv"]
    assert (folder / "seed1.csv").read_text() == "0,-1\n8,-1\n"


def test_the_truth_counts_seed_and_files():
    truth = feed.truth(10, 2)
    assert truth.total() == 10 + 2 * feed.ROWS
    assert truth == Counter(range(10)) + Counter(feed.keys_of(0, 10)) + Counter(feed.keys_of(1, 10))


def test_the_rest_of_the_files_comes_at_once_when_there_is_a_hurry(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / feed.HURRY).touch()
    feed.feed(tmp_path / "in", 10, 40)
    journal = case.journal(tmp_path / "in")
    assert list(journal) == list(range(40))
    assert max(journal.values()) - min(journal.values()) < 40 / feed.FILES_PER_S
    assert feed.read_journal("0,1.5\n1,2.5\n2,3") == {0: 1.5, 1: 2.5}


def test_what_is_lost_and_what_is_doubled_is_told_by_the_truth():
    right = compare([{1: 2, 2: 3}], {1: 2, 2: 3})
    assert (right["rows"], right["lost"], right["doubled"]) == (5, 0, 0)
    wrong = compare([{1: 1, 2: 4, 3: 1}, {1: 2}], {1: 2, 2: 3})
    assert (wrong["lost"], wrong["doubled"]) == (3, 2)
    assert wrong["checksum"] != right["checksum"]


# ---- Spark's log ----


def progress(number: int, start: str | None, **durations: int) -> str:
    told = {
        "runId": "r",
        "batchId": number,
        "timestamp": "1970-01-01T00:00:05.500Z",
        "durationMs": durations,
        "sources": [{"startOffset": start, "endOffset": '{"logOffset":3}'}],
    }
    kind = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    return json.dumps({"Event": kind, "progress": told})


def task(executor: str, at: int, failed: bool = False) -> str:
    info = {"Executor ID": executor, "Launch Time": at, "Failed": failed}
    return json.dumps({"Event": "SparkListenerTaskEnd", "Stage ID": 1, "Task Info": info})


def test_event_log_tells_batches_executors_and_their_first_tasks():
    events = Events()
    events.take(
        "app",
        [
            json.dumps({"Event": "SparkListenerExecutorAdded", "Timestamp": 1000, "Executor ID": "1"}),
            task("1", 3000, failed=True),
            task("1", 2000),
            progress(7, '{"logOffset":1}', addBatch=10, triggerExecution=250),
            progress(8, None, triggerExecution=5),
            json.dumps({"Event": "SparkListenerJobEnd"}),
            json.dumps({"Event": "SparkListenerExecutorRemoved", "Timestamp": 9000, "Executor ID": "1"}),
            '{"Event":"SparkListenerTaskEnd","Stage',
        ],
    )
    assert (events.added, events.used, events.removed) == ({"app/1": 1.0}, {"app/1": 2.0}, {"app/1": 9.0})
    assert events.failed_tasks == 1
    assert events.batches == [Batch(run="r", number=7, span=Span(begin=5.5, end=5.75), logged=(1, 3))]


def test_a_query_that_was_restarted_was_dead_until_its_first_batch_and_the_executors_that_came_before_are_its_slots():
    events = Events(batches=BATCHES, added={"a/1": 5.0, "b/1": 12.0, "b/2": 14.5})
    assert query_restarted(events, ORDER) == Effect(dead_s=1.0, there=12.0, begun=14)
    kept = Events(batches=BATCHES, added={"a/1": 5.0})
    assert query_restarted(kept, ORDER).there == ORDER.window.begin


def test_executors_take_effect_with_their_first_task_or_with_the_first_batch_without_them():
    grown = Events(batches=BATCHES, added={"a/1": 5.0, "a/2": 12.0}, used={"a/1": 6.0, "a/2": 14.2})
    assert executors_changed(grown, ORDER) == Effect(dead_s=1.0, there=12.0, begun=14.2)
    shrunk = Events(batches=BATCHES, removed={"a/2": 11.2})
    assert executors_changed(shrunk, ORDER) == Effect(dead_s=1.0, there=11.2, begun=11.5)
    slow_to_end = Events(batches=BATCHES, removed={"a/2": 22.5})
    assert executors_changed(slow_to_end, ORDER) == Effect(dead_s=1.0, there=22.5, begun=23)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (Events(batches=BATCHES), "no executor came or went"),
        (Events(batches=BATCHES, added={"a/2": 12.0}), "nothing ran on the new slots"),
        (Events(batches=BATCHES[:2], removed={"a/2": 19.0}), "nothing ran on the new slots"),
    ],
)
def test_executors_that_did_not_change_or_were_not_used_are_no_rescale(events, said):
    with pytest.raises(ValueError, match=said):
        executors_changed(events, ORDER)


def test_a_file_was_seen_when_the_batch_that_read_it_was_committed():
    logged = files_logged(
        ["v1", '{"path":"file:///in/000012.csv","batchId":2}', '{"path":"file:///in/seed3.csv","batchId":0}']
    )
    assert logged == {12: 2}
    ahead = Batch(run="r", number=9, span=Span(begin=1, end=2), logged=(-1, 1))
    behind = Batch(run="r", number=10, span=Span(begin=3, end=4), logged=(1, 2))
    assert seen([ahead, behind], {12: 2, 13: 5}) == {12: 4}


# ---- Flink's log ----


def said(at: str, what: str) -> str:
    return f"1970-01-01 00:00:{at} INFO  org.apache.flink.runtime [] - {what}"


def test_jobmanager_tells_when_tasks_stood_still_and_checkpoints():
    log = JobLog()
    log.take(
        [
            said("12,000", "Source: records[1] (1/2) (a_0_0) switched from RUNNING to CANCELING."),
            said("12,100", "end: Writer (1/1) (a_0_0) switched from RUNNING to CANCELING."),
            said("13,500", "Source: records[1] (1/1) (a_0_1) switched from INITIALIZING to RUNNING."),
            said("13,750", "end: Writer (1/1) (a_0_1) switched from INITIALIZING to RUNNING."),
            said("13,800", "Job counts (51f3) switched from state CREATED to RUNNING."),
            "\tat java.lang.Thread.run",
            *(
                said(f"{second},000", f"Completed checkpoint {second} for job 51f3 (1 bytes)")
                for second in (19, 21, 24)
            ),
        ]
    )
    assert log.stood(ORDER) == (12.0, 13.75)
    assert log.period([ORDER]) == 3.0
    with pytest.raises(ValueError, match="no task"):
        log.stood(replace(ORDER, window=ORDER.steady))
    with pytest.raises(ValueError, match="no two checkpoints"):
        JobLog().period([ORDER])


def test_files_of_the_sink_give_counts_rows_and_when_they_could_be_seen(tmp_path):
    sink = SinkFiles()
    sink.take("1,1,0\n1,2,1\n", 5.0)
    sink.take("1,2,1\n2,1,1\n", 7.0)
    assert (sink.highest, sink.rows) == ({1: 2, 2: 1}, {1: 3, 2: 1})
    assert sink.seen == {0: 5.0, 1: 7.0}

    (tmp_path / "part-0-0").write_text("3,1,2\n")
    (tmp_path / ".part-0-1.inprogress").write_text("3,2,2\n")
    sink.look(tmp_path)
    sink.look(tmp_path)
    assert sink.rows[3] == 1


def test_flink_is_configured_for_loopback_and_for_rescales_without_waits(tmp_path):
    text = configuration(
        tmp_path, tmp_path, {"rpc": 1, "blob": 2, "rest": 3}, java_options("env:\n  all: --add-exports=a\n")
    )
    assert "env.java.opts.all: --add-exports=a\n" in text
    assert "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling: 0 s\n" in text
    assert "rest.bind-address: 127.0.0.1\n" in text


def test_flink_is_installed_only_if_it_is_not_there(tmp_path):
    environment = tmp_path / "flink"
    with pytest.raises(FlinkMissingError, match=r"apache-flink==2\.3\.0 could not be installed, see flink\.log"):
        find(environment)

    package = environment / "lib" / "python3" / "site-packages"
    for file in (package / "pyflink" / "bin" / "flink", package / "apache_flink-2.3.0.dist-info" / "RECORD"):
        file.parent.mkdir(parents=True)
        file.touch()
    install(environment)
    assert find(environment) == package / "pyflink"
    assert not (tmp_path / "flink.log").exists()


def test_what_keeps_flink_from_being_installed_is_in_a_log(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    install(tmp_path / "flink")
    assert "no-python" in (tmp_path / "flink.log").read_text()


# ---- a case ----


class Rescaled(Subject):
    """A job whose third rescale hangs."""

    def __init__(self) -> None:
        self.ordered: list[int] = []

    def order(self, slots):
        self.ordered.append(slots)
        return 0.0

    def wait_effect(self):
        if len(self.ordered) == 3:
            raise TimeoutError("the plan in force: not within 120 s\nand more")

    def warm_up(self): ...
    def end(self): ...
    def forget(self): ...
    def counted(self):
        return ()

    def measured(self, given):
        return 0.0, [], ""


@pytest.fixture
def no_wait(monkeypatch):
    monkeypatch.setattr(case, "SETTLE_S", 0.0)
    monkeypatch.setattr(case, "STEADY_S", 0.0)


@pytest.mark.usefixtures("no_wait")
def test_job_goes_down_and_up_in_turn_and_what_was_found_before_it_hangs_counts():
    subject = Rescaled()
    given, stopped = orders(subject, 10, float("inf"))
    assert subject.ordered == [1, 2, 1]
    assert [order.slots for order in given] == [1, 2]
    assert stopped == "TimeoutError: the plan in force: not within 120 s"


@pytest.mark.usefixtures("no_wait")
def test_no_rescale_begins_after_the_deadline():
    assert orders(Rescaled(), 10, 0.0) == ([], "no time left for more")
    assert orders(Rescaled(), 0, 0.0) == ([], "")


def test_a_rescale_that_can_not_be_measured_is_told_and_left_out():
    def measure(order: Order) -> Repeat:
        if order.slots == 1:
            raise ValueError("no other run of the query began")
        return repeat()

    found, wrong = all_measured([ORDER, replace(ORDER, slots=1)], measure)
    assert found == [repeat()]
    assert wrong == "a rescale could not be measured: ValueError: no other run of the query began"


def test_an_error_fits_into_a_cell():
    assert first_line(RuntimeError("a|b\nc")) == "RuntimeError: a/b"
    assert first_line(RuntimeError()) == "RuntimeError"


def test_only_whole_cases_are_remembered_for_another_run(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.benchmarks.rescale.__main__.FOLDER", tmp_path)
    assert remembered() == {}
    whole = found("tier 1")
    remember(
        {"a": whole, "b": replace(whole, title="b", error="no time left"), "c": Found(title="c", error="no Flink")}
    )
    assert remembered() == {whole.title: whole}


def test_each_case_has_a_title_of_its_own():
    assert len({it.title for it in CASES}) == len(CASES)


class Measured(Case):
    """A case that gives a result, or fails."""

    def run(self, root, *, repeats, warm_up, deadline, files):
        assert not list(root.iterdir())
        if self.name == "Flink":
            raise FlinkMissingError("no registry")
        return replace(found(self.name), title=self.title)


@pytest.fixture
def cases(tmp_path, monkeypatch):
    all_cases = [Measured(name=name, keys=10_000) for name in ("tier 1", "Flink", "tier 3")]
    monkeypatch.setattr("tests.benchmarks.rescale.__main__.FOLDER", tmp_path / "bench")
    monkeypatch.setattr("tests.benchmarks.rescale.__main__.CASES", dict.fromkeys(all_cases, 1.0))
    return all_cases


def test_case_that_fails_is_a_row_and_the_others_are_measured_and_written(cases, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- rescale: begin -->\nold\n<!-- rescale: end -->\n")
    assert main(["--write", str(page)]) == 1
    assert "| Flink, 10,000 keys | not measured: FlinkMissingError: no registry |" in page.read_text()
    assert "| tier 3, 10,000 keys | 2 |" in page.read_text()
    assert "Of each case 10 rescales, after 2 for warming up" in capsys.readouterr().out
    assert list(remembered()) == ["tier 1, 10,000 keys", "tier 3, 10,000 keys"]


def test_what_an_earlier_run_has_measured_is_left_out_by_a_run_that_goes_on(cases, tmp_path, capsys):
    main(["--only", "tier 1"])
    first = capsys.readouterr()
    assert first.err.startswith("tier 1, 10,000 keys: ")
    assert main(["--resume", "--only", "tier"]) == 0
    again = capsys.readouterr()
    assert again.err.startswith("tier 3, 10,000 keys: ")
    assert "| tier 1, 10,000 keys | 2 |" in again.out


# ---- tables ----


def repeat(**changes: Any) -> Repeat:
    usual: dict[str, Any] = {
        "dead_s": 0.2,
        "missed": 0,
        "effect_s": 2.0,
        "slot_s": 0.5,
        "delay_s": 2.0,
        "steady_delay_s": 1.0,
    }
    return Repeat(**{"slots": 2, **usual, **changes})


def found(name: str, size: str = "10,000 keys", **changes: Any) -> Found:
    repeats = (repeat(**changes), repeat(**changes, slots=1))
    return Found(title=f"{name}, {size}", repeats=repeats, period_s=0.5, rows=100, checksum="abc", load=1.0)


def verdicts(*all_found: Found) -> dict[str, str]:
    rows = [line.strip("| ").split(" | ") for line in list(targets(all_found))[2:]]
    return {target: verdict for target, _, verdict in rows}


def test_targets_are_judged_as_they_are():
    told = verdicts(
        found("tier 0", missed=1),
        found("tier 1"),
        found("tier 1", "1,000,000 keys", dead_s=0.4),
        found("tier 2", dead_s=3.0),
        found("tier 2", "1,000,000 keys", dead_s=9.0),
        found("Flink", dead_s=0.1),
    )
    assert told == {
        "tier 0, 10,000 keys: no batch missed": NOT_MET,
        "tier 0, 10,000 keys, down: worst record delay no worse than in steady running": NOT_MET,
        "tier 0, 10,000 keys, up: worst record delay no worse than in steady running": NOT_MET,
        "tier 1, 10,000 keys: dead time <= 0.3 s at p95": MET,
        "tier 1, 10,000 keys: dead time at p95 not above Flink's": NOT_MET,
        "tier 1, 1,000,000 keys: dead time <= 0.3 s at p95": NOT_MET,
        "tier 1, 1,000,000 keys: dead time at p95 not above Flink's": NOT_JUDGED,
        "tier 2, 10,000 keys: dead time <= 3 s at p95": MET,
        "0 lost, 0 doubled, equal counts": MET,
    }
    assert verdicts(found("tier 0", delay_s=1.0))["tier 0, 10,000 keys: no batch missed"] == MET


@pytest.mark.parametrize("wrong", [{"lost": 1}, {"doubled": 1}, {"checksum": "other"}])
def test_results_that_differ_or_are_not_the_truth_meet_no_target(wrong):
    all_found = found("tier 1"), replace(found("Flink"), **wrong)
    assert verdicts(*all_found)["0 lost, 0 doubled, equal counts"] == NOT_MET


def test_tables_tell_ratios_to_flink_with_as_much_state_and_what_was_not_measured():
    flink = found("Flink", dead_s=0.4, delay_s=4.0)
    missing = Found(title="Flink, 1,000,000 keys", error="FlinkMissingError: no registry")
    told = list(tables([found("tier 1"), found("tier 1", "1,000,000 keys"), flink, missing]))
    ours, large, theirs, absent = told[2:6]
    assert "0.20 (0.20 - 0.20) | 0.20 | 0.50 (0.50 - 0.50)" in ours
    assert "0.20 (0.20 - 0.20) | 0.20 |  |" in large
    assert theirs.startswith("| Flink, 10,000 keys | 2 | 0 (0) | 0.40")
    assert absent.startswith("| Flink, 1,000,000 keys | not measured: FlinkMissingError: no registry |")
    widths = {line.count("|") for line in told[:6]}
    assert widths == {10}


def test_worst_delays_are_told_as_ratios_to_steady_running_and_to_flink():
    _, _, down, up, *_ = delays([found("tier 1"), found("Flink", delay_s=4.0)])
    assert up == down.replace("down", "up")
    assert down == (
        "| tier 1, 10,000 keys, down | 2.00 (2.00 - 2.00) | 2.00 | 1.00 (1.00 - 1.00) | 2.00 (2.00 - 2.00) |"
        " 0.50 (0.50 - 0.50) | 0.50 |"
    )


def test_what_went_wrong_stands_beside_the_results():
    *_, row = results([replace(found("tier 3"), error="no time left for more")])
    assert row == "| tier 3, 10,000 keys | 100 | 0 | 0 | `abc` | 1.0 | no time left for more |"
