"""Each job, epoch and nonce has its own valid name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._clusters.kubernetes.names import (
    MAX_PREFIX,
    DriverIdentity,
    job_name,
    read_submission_id,
    submission_id,
)

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def test_a_short_dns_label_is_its_own_name():
    assert job_name("departures") == "departures"


@pytest.mark.parametrize("job", ["Departures", "a_b", "a.b", "x" * 31, "-a", "ärger", "", "...", "a b"])
def test_other_ids_are_mapped(job: str):
    assert job_name(job) != job
    assert LABEL.fullmatch(job_name(job))


def test_ids_that_look_alike_have_different_names():
    alike = ["a_b", "a.b", "A_b", "a-b", "x" * 40 + "1", "x" * 40 + "2"]
    assert len({job_name(job) for job in alike}) == len(alike)


@given(job=st.text(max_size=80), epoch=st.integers(min_value=0, max_value=9_999_999), nonce=st.text())
def test_the_name_of_a_pod_is_a_prefix_of_names_of_executors(job: str, epoch: int, nonce: str):
    name = DriverIdentity(job, epoch, nonce).pod
    assert LABEL.fullmatch(name)
    assert len(name) <= MAX_PREFIX


def test_other_identities_have_other_names():
    identities = [
        DriverIdentity("a", 1, "n"),
        DriverIdentity("b", 1, "n"),
        DriverIdentity("a", 2, "n"),
        DriverIdentity("a", 1, "m"),
    ]
    assert len({identity.pod for identity in identities}) == 4


def test_labels_and_annotations_identify_the_driver():
    identity = DriverIdentity("Team_A.x", 7, "n1")
    assert identity.labels == {
        "airflow-adaptive/job": job_name("Team_A.x"),
        "airflow-adaptive/epoch": "7",
        "app.kubernetes.io/managed-by": "airflow-adaptive",
    }
    assert identity.annotations == {"airflow-adaptive/job": "Team_A.x", "airflow-adaptive/nonce": "n1"}


def test_a_submission_id_contains_pod_and_uid():
    assert read_submission_id(submission_id("a-1-00000000", "uid")) == ("a-1-00000000", "uid")
    assert read_submission_id("driver-20130101000000-0001") == ("", "")
