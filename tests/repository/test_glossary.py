"""The glossary defines each term once, and names definitions that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import resolve_name

import pytest

from tests.support.repository import ROOT

ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs" / "reference" / "glossary.md").read_text(), re.MULTILINE
)
TERMS = [(term.strip(), code) for term, _, code in ROWS if term.strip() != "Term"]


def test_each_term_is_defined_once() -> None:
    terms = [term for term, _ in TERMS]
    assert len(terms) > 40
    assert sorted(set(terms)) == sorted(terms)


@pytest.mark.parametrize(("term", "code"), TERMS)
def test_definition_in_the_code_exists(term: str, code: str) -> None:
    names = re.findall(r"`([\w.]+)`", code)
    assert names, f"the term {term!r} names no definition"
    for name in names:
        module, _, attribute = name.rpartition(".")
        is_name = attribute[0].isupper()
        assert resolve_name(f"airflow_adaptive.{module}:{attribute}") if is_name else import_or_attribute(name)


def import_or_attribute(name: str) -> object:
    try:
        return import_module(f"airflow_adaptive.{name}")
    except ModuleNotFoundError:
        return resolve_name(f"airflow_adaptive.{name}")
