#!/usr/bin/env bash
# Prints the folder of a virtual environment with another version of Airflow and this checkout, and creates it if it is missing. uv resolves the
# packages, because pip needs many minutes for an older Airflow.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly VERSION="$1" FOLDER="$PWD/.airflow/$1"
# Airflow limits the packages of its servers and commands from below only, and newer ones break it, as its own constraint files assume. So they are those of the time
# before the next minor release of Airflow.
declare -rA NEXT_RELEASE=([3.1]=2026-04-14 [3.2]=2026-07-09)
readonly OF_AIRFLOW=(alembic cadwyn fastapi sqlalchemy starlette svcs)
time=()
if [[ -n "${NEXT_RELEASE[${VERSION%.*}]:-}" ]]; then
  time=("${OF_AIRFLOW[@]/#/--exclude-newer-package=}")
  time=("${time[@]/%/=${NEXT_RELEASE[${VERSION%.*}]}}")
fi
export UV_SYSTEM_CERTS=1 UV_HTTP_TIMEOUT=180  # as pip: the certificates of the machine, and a slow network
if [[ ! "$FOLDER/.installed" -nt pyproject.toml ]]; then
  echo "Installing Airflow $VERSION into $FOLDER." >&2
  rm -rf "$FOLDER"
  .venv/bin/uv venv --quiet --python .venv/bin/python "$FOLDER" >&2
  # As in install.sh, pyspark comes last, because pyspark-client overwrites its files.
  # The version takes the place of the requirement of the package, which excludes the next version of Airflow and its pre-releases.
  .venv/bin/uv pip install --quiet --python "$FOLDER" --override <(echo "apache-airflow==$VERSION") --editable '.[dev,demo]' "${time[@]}" "fastapi<0.137" >&2
  .venv/bin/uv pip install --quiet --python "$FOLDER" --reinstall --no-deps "$(.venv/bin/python -m pip freeze | grep '^pyspark==')" >&2
  touch "$FOLDER/.installed"
fi
echo "$FOLDER"
