#!/usr/bin/env bash
# Prints the folder of a virtual environment with another version of Airflow and this checkout, and creates it if it is missing. uv resolves the
# packages, because pip needs many minutes for an older Airflow.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly VERSION="$1" FOLDER="$PWD/.airflow/$1"
# FastAPI 0.137 is newer than what these versions of Airflow were released with.
readonly RELEASED_WITH=("fastapi<0.137" "sqlalchemy<2.1")
export UV_SYSTEM_CERTS=1 UV_HTTP_TIMEOUT=180  # as pip: the certificates of the machine, and a slow network
if [[ ! "$FOLDER/.installed" -nt pyproject.toml ]]; then
  echo "Installing Airflow $VERSION into $FOLDER." >&2
  rm -rf "$FOLDER"
  .venv/bin/uv venv --quiet --python .venv/bin/python "$FOLDER" >&2
  # As in install.sh, pyspark comes last, because pyspark-client overwrites its files.
  # The version takes the place of the requirement of the package, which excludes the next version of Airflow and its pre-releases.
  .venv/bin/uv pip install --quiet --python "$FOLDER" --override <(echo "apache-airflow==$VERSION") --editable '.[dev,demo]' "${RELEASED_WITH[@]}" >&2
  .venv/bin/uv pip install --quiet --python "$FOLDER" --reinstall --no-deps "$(.venv/bin/python -m pip freeze | grep '^pyspark==')" >&2
  touch "$FOLDER/.installed"
fi
echo "$FOLDER"
