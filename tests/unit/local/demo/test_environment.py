"""The working directory of the demo."""

from __future__ import annotations

from pathlib import Path

from airflow_adaptive.local.demo.environment import empty


def test_the_directory_stays_and_its_content_is_deleted(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    directory = tmp_path / "demo"
    (directory / "folder" / "inner").mkdir(parents=True)
    (directory / "file").touch()
    (directory / "link").symlink_to(outside)
    before = directory.stat().st_ino
    empty(directory)
    assert [*directory.iterdir()] == []
    assert (directory.stat().st_ino, outside.is_dir()) == (before, True)


def test_a_directory_that_does_not_exist_is_created(tmp_path: Path) -> None:
    empty(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
