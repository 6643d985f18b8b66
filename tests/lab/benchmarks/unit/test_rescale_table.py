"""The tables of the rescale benchmark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lab.benchmarks.rescale.case import Found
from tests.lab.benchmarks.rescale.table import MET, NOT_JUDGED, NOT_MET, delays, results, tables, targets
from tests.lab.benchmarks.unit.rescale_results import found


def result_of_targets(*all_found: Found) -> dict[str, str]:
    rows = [line.strip("| ").split(" | ") for line in list(targets(all_found))[2:]]
    return {target: result for target, _, result in rows}


def test_targets_are_judged_as_they_are():
    rows = result_of_targets(
        found("tier 0", missed=1),
        found("tier 1"),
        found("tier 1", "1,000,000 keys", dead_s=0.4),
        found("tier 2", dead_s=3.0),
        found("tier 2", "1,000,000 keys", dead_s=9.0),
        found("Flink", dead_s=0.1),
    )
    assert rows == {
        "tier 0, 10,000 keys: no batch missed": NOT_MET,
        "tier 0, 10,000 keys, down: worst record delay no worse than in steady running": NOT_MET,
        "tier 0, 10,000 keys, up: worst record delay no worse than in steady running": NOT_MET,
        "tier 1, 10,000 keys: dead time <= 0.3 s at p95": MET,
        "tier 1, 10,000 keys: dead time at p95 not above Flink's": NOT_MET,
        "tier 1, 1,000,000 keys: dead time <= 0.3 s at p95": NOT_MET,
        "tier 1, 1,000,000 keys: dead time at p95 not above Flink's": NOT_JUDGED,
        "tier 2, 10,000 keys: dead time <= 3 s at p95": MET,
        "0 lost, 0 duplicated, equal counts": MET,
    }
    assert result_of_targets(found("tier 0", delay_s=1.0))["tier 0, 10,000 keys: no batch missed"] == MET


@pytest.mark.parametrize("wrong", [{"lost": 1}, {"duplicated": 1}, {"checksum": "other"}])
def test_results_that_differ_or_are_not_the_truth_meet_no_target(wrong):
    all_found = found("tier 1"), replace(found("Flink"), **wrong)
    assert result_of_targets(*all_found)["0 lost, 0 duplicated, equal counts"] == NOT_MET


def test_tables_report_ratios_to_flink_with_as_much_state_and_what_was_not_measured():
    flink = found("Flink", dead_s=0.4, delay_s=4.0)
    missing = Found(title="Flink, 1,000,000 keys", error="FlinkMissingError: no registry")
    rows = list(tables([found("tier 1"), found("tier 1", "1,000,000 keys"), flink, missing]))
    ours, large, theirs, absent = rows[2:6]
    assert "0.20 (0.20 - 0.20) | 0.20 | 0.50 (0.50 - 0.50)" in ours
    assert "0.20 (0.20 - 0.20) | 0.20 |  |" in large
    assert theirs.startswith("| Flink, 10,000 keys | 2 | 0 (0) | 0.40")
    assert absent.startswith("| Flink, 1,000,000 keys | not measured: FlinkMissingError: no registry |")
    widths = {line.count("|") for line in rows[:6]}
    assert widths == {10}


def test_tiers_on_kubernetes_are_compared_with_the_standalone_tiers():
    on_kubernetes, standalone = (
        found("tier 1", "Kubernetes, 10,000 keys"),
        found("tier 1", "standalone, 10,000 keys", dead_s=0.4),
    )
    head, _, ours, theirs = list(tables([on_kubernetes, standalone]))[:4]
    assert head.count("to standalone") == 2
    assert "0.20 (0.20 - 0.20) | 0.20 | 0.50 (0.50 - 0.50)" in ours
    assert "0.40 (0.40 - 0.40) | 0.40 |  |" in theirs
    assert set(result_of_targets(on_kubernetes)) == {
        "tier 1, Kubernetes, 10,000 keys: dead time <= 0.3 s at p95",
        "0 lost, 0 duplicated, equal counts",
    }


def test_worst_delays_are_reported_as_ratios_to_steady_running_and_to_flink():
    _, _, down, up, *_ = delays([found("tier 1"), found("Flink", delay_s=4.0)])
    assert up == down.replace("down", "up")
    assert down == (
        "| tier 1, 10,000 keys, down | 2.00 (2.00 - 2.00) | 2.00 | 1.00 (1.00 - 1.00) | 2.00 (2.00 - 2.00) |"
        " 0.50 (0.50 - 0.50) | 0.50 |"
    )


def test_what_went_wrong_stands_beside_the_results():
    *_, row = results([replace(found("tier 3"), error="no time left for more")])
    assert row == "| tier 3, 10,000 keys | 100 | 0 | 0 | `abc` | 1.0 | no time left for more |"
