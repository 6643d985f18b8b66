#!/usr/bin/env bash
# Prints the folder of another version of PySpark, to be put in front of PYTHONPATH. Installs that version if it is missing. The folder is
# outside the checkout, so that every checkout uses the same installation.
set -euo pipefail
readonly FOLDER="${XDG_CACHE_HOME:-$HOME/.cache}/airflow-adaptive/spark/$1"
if [[ ! -d "$FOLDER" ]]; then
  echo "Installing PySpark $1 into $FOLDER (450 MB)." >&2
  partial="$FOLDER.$$"
  "$(dirname "${BASH_SOURCE[0]}")/../.venv/bin/python" -m pip install --quiet --disable-pip-version-check --target "$partial" "pyspark==$1" >&2
  mv --no-target-directory "$partial" "$FOLDER" || [[ -d "$FOLDER" ]]
fi
echo "$FOLDER"
