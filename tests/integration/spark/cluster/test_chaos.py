"""A short run of `make lab TASK=chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.faults.chaos import STRICT, run


@pytest.mark.long
@pytest.mark.timeout(600)
def test_short_chaos_loses_and_doubles_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(11, 0.7, STRICT, tmp_path), capsys.readouterr().out
    assert " 0 duplicated" in capsys.readouterr().out
