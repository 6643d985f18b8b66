"""The evaluation of logs, outputs and measurements by the benchmark of rescales (`make bench-rescale`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.lab.benchmarks.rescale import case, feed
from tests.lab.benchmarks.rescale.__main__ import CASES, ON_KUBERNETES, main, remember, remembered
from tests.lab.benchmarks.rescale.case import Case, Found, Subject, all_measured, compare, first_line, orders
from tests.lab.benchmarks.rescale.flink.installation import (
    FlinkMissingError,
    configuration,
    find,
    install,
    java_options,
)
from tests.lab.benchmarks.rescale.measurements import (
    Order,
    Repeat,
    Span,
)
from tests.lab.benchmarks.unit.rescale_results import found, repeat

ORDER = Order(slots=2, window=Span(begin=10, end=20), steady=Span(begin=20, end=30))


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


def test_what_is_lost_and_what_is_duplicated_is_reported_by_the_truth():
    right = compare([{1: 2, 2: 3}], {1: 2, 2: 3})
    assert (right["rows"], right["lost"], right["duplicated"]) == (5, 0, 0)
    wrong = compare([{1: 1, 2: 4, 3: 1}, {1: 2}], {1: 2, 2: 3})
    assert (wrong["lost"], wrong["duplicated"]) == (3, 2)
    assert wrong["checksum"] != right["checksum"]


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


class Rescaled(Subject):
    """A job whose third rescale hangs."""

    def __init__(self) -> None:
        self.ordered: list[int] = []

    def order(self, slots):
        self.ordered.append(slots)
        return 0.0

    def wait_effect(self):
        if len(self.ordered) == 3:
            raise TimeoutError("the active plan: not within 120 s\nand more")

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
    assert stopped == "TimeoutError: the active plan: not within 120 s"


@pytest.mark.usefixtures("no_wait")
def test_no_rescale_begins_after_the_deadline():
    assert orders(Rescaled(), 10, 0.0) == ([], "no time left for more")
    assert orders(Rescaled(), 0, 0.0) == ([], "")


def test_a_rescale_that_can_not_be_measured_is_reported_and_left_out():
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
    monkeypatch.setattr("tests.lab.benchmarks.rescale.__main__.FOLDER", tmp_path)
    assert remembered("rescale") == {}
    whole = found("tier 1")
    all_found = {
        "a": whole,
        "b": replace(whole, title="b", error="no time left"),
        "c": Found(title="c", error="no Flink"),
    }
    remember(all_found, "rescale")
    assert remembered("rescale") == {whole.title: whole}
    assert remembered("rescale on Kubernetes") == {}


def test_each_case_has_a_title_of_its_own():
    for cases in (CASES, ON_KUBERNETES):
        assert len({it.title for it in cases}) == len(cases)


def test_each_tier_on_kubernetes_is_measured_beside_the_standalone_tier():
    titles = [case.title for case in ON_KUBERNETES]
    assert titles[:2] == ["tier 0, Kubernetes, 10,000 keys", "tier 0, standalone, 10,000 keys"]
    assert [title.partition(",")[0] for title in titles[::2]] == ["tier 0", "tier 1", "tier 2", "tier 3"]


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
    monkeypatch.setattr("tests.lab.benchmarks.rescale.__main__.FOLDER", tmp_path / "bench")
    monkeypatch.setattr("tests.lab.benchmarks.rescale.__main__.CASES", dict.fromkeys(all_cases, 1.0))
    return all_cases


def test_case_that_fails_is_a_row_and_the_others_are_measured_and_written(cases, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- rescale: begin -->\nold\n<!-- rescale: end -->\n")
    assert main(["--write", str(page)]) == 1
    assert "| Flink, 10,000 keys | not measured: FlinkMissingError: no registry |" in page.read_text()
    assert "| tier 3, 10,000 keys | 2 |" in page.read_text()
    assert "Of each case 10 rescales, after 2 for warming up" in capsys.readouterr().out
    assert list(remembered("rescale")) == ["tier 1, 10,000 keys", "tier 3, 10,000 keys"]


def test_what_an_earlier_run_has_measured_is_left_out_by_a_run_that_goes_on(cases, tmp_path, capsys):
    main(["--only", "tier 1"])
    first = capsys.readouterr()
    assert first.err.startswith("tier 1, 10,000 keys: ")
    assert main(["--resume", "--only", "tier"]) == 0
    again = capsys.readouterr()
    assert again.err.startswith("tier 3, 10,000 keys: ")
    assert "| tier 1, 10,000 keys | 2 |" in again.out
