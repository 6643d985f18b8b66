"""The measured tables of the docs name their commit, and state that they are older than the code that they describe."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import published_tables
from tests.support.page_sections import section
from tests.support.published_tables import (
    AGE,
    CODE,
    NOT_MEASURED,
    OLDER,
    TABLES,
    UNKNOWN,
    PublishedTable,
    head,
    main,
    oldest,
    publish,
)
from tests.support.repository import ROOT


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a page, whose only table describes the folder `airflow_adaptive`."""
    table = PublishedTable(page="page.md", target="measure", paths=("airflow_adaptive",))
    monkeypatch.setattr(published_tables, "ROOT", tmp_path)
    monkeypatch.setattr(published_tables, "TABLES", {"costs": table})
    monkeypatch.setattr("sys.argv", ["published_tables"])
    git(tmp_path, "init", "--quiet")
    (tmp_path / "page.md").write_text("<!-- costs: begin -->\n<!-- costs: end -->\n")
    commit(tmp_path, "airflow_adaptive/code.py")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    user = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *user, *arguments], cwd=folder, check=True)


def commit(clone: Path, name: str) -> str:
    """Commit a change of a file; the commit."""
    file = clone / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(file.read_text() + "x" if file.exists() else "x")
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message", name)
    return head()


def test_every_published_table_names_its_commit_and_date():
    sections = {name: section(ROOT / table.page, name).strip() for name, table in TABLES.items()}
    lines = {name: AGE.search(text) for name, text in sections.items() if text != NOT_MEASURED}
    assert [name for name, line in lines.items() if line is None or line[1] == UNKNOWN] == []


def test_every_path_and_target_exists():
    makefile = (ROOT / "Makefile").read_text()
    assert [path for table in TABLES.values() for path in table.paths if not (ROOT / path).exists()] == []
    targets = [table.target.partition(" ")[0] for table in TABLES.values()]
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_table_becomes_older_than_the_code_when_one_of_its_paths_changes(clone: Path):
    measured = head()
    publish("costs", "| 1 |")
    assert f"Measured at commit `{measured}` (20" in section(clone / "page.md", "costs")
    commit(clone, "page.md")
    main()
    assert OLDER not in (clone / "page.md").read_text()
    for _ in range(2):
        commit(clone, "airflow_adaptive/code.py")
        main()
        lines = section(clone / "page.md", "costs").splitlines()
        assert lines[0] == "| 1 |"
        assert lines[-1].startswith(f"Measured at commit `{measured}` (20")
        assert lines[-1].endswith(OLDER)
    publish("costs", "| 2 |")
    assert OLDER not in (clone / "page.md").read_text()


def test_change_that_is_not_committed_makes_the_table_older(clone: Path):
    """So the commit that makes a table old can contain the statement."""
    publish("costs", "| 1 |")
    (clone / "airflow_adaptive" / "code.py").write_text("other")
    main()
    assert OLDER in (clone / "page.md").read_text()


def test_check_lists_the_table_and_changes_nothing(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    publish("costs", "| 1 |")
    page = (clone / "page.md").read_text()
    monkeypatch.setattr("sys.argv", ["published_tables", "--check"])
    main()
    assert capsys.readouterr().out == ""
    commit(clone, "airflow_adaptive/code.py")
    main()
    assert capsys.readouterr().out == "page.md, table 'costs': run `make tables-age`\n"
    assert section(clone / "page.md", "costs") in page


def test_measurement_of_changes_that_are_not_committed_is_marked(clone: Path):
    (clone / "page.md").write_text("other")
    assert not head().endswith("-dirty")
    (clone / CODE[0] / "code.py").write_text("other")
    assert head().endswith("-dirty")


def test_table_is_as_old_as_the_oldest_commit_of_its_rows(clone: Path):
    first, second, third = (commit(clone, "airflow_adaptive/code.py") for _ in range(3))
    assert oldest([third, first, second]) == first
    assert oldest([f"{second}-dirty", third]) == f"{second}-dirty"
    assert oldest(["0123456-dirty", third]) == third
    assert oldest(["0123456-dirty"]) == "0123456-dirty"


def test_age_of_a_table_stays_where_the_clone_lacks_its_commit(clone: Path):
    """A shallow clone has only the newest commit."""
    publish("costs", "| 1 |", commit="0123456")
    page = clone / "page.md"
    assert "Measured at commit `0123456` (unknown)" in page.read_text()
    known = page.read_text().replace("(unknown)", "(2026-01-01)")
    page.write_text(known)
    main()
    assert page.read_text() == known
