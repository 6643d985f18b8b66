#!/usr/bin/env bash
# Builds the documentation site into build/docs; each warning is an error. With "links", also requests the links to other sites.
set -euo pipefail
cd "$(dirname "$0")/.."
MERMAID=11.12.1

.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'

assets=docs/_static/mermaid
if [ ! -f "$assets/mermaid.esm.min.mjs" ]; then
  mkdir -p build "$assets/chunks"
  .venv/bin/python - "$MERMAID" <<'PY'
import runpy
import subprocess
import sys

npm, environment = runpy.run_path("airflow_adaptive/_web/ui/build.py")["npm_command"]()
command = [*npm, "pack", "--silent", "--pack-destination", "build", f"mermaid@{sys.argv[1]}"]
subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
PY
  tar --extract --gzip --file "build/mermaid-$MERMAID.tgz" --directory build package/dist
  cp -r build/package/dist/chunks/mermaid.esm.min "$assets/chunks/"
  find "$assets" -name '*.map' -delete
  cp build/package/dist/mermaid.esm.min.mjs "$assets/"
  rm -r build/package
fi

.venv/bin/sphinx-build --fail-on-warning --keep-going --quiet -b html docs build/docs
if [ "${1:-}" = links ]; then
  .venv/bin/sphinx-build --fail-on-warning --quiet -b linkcheck docs build/links
fi
echo "The site is in build/docs: .venv/bin/python -m http.server --directory build/docs"
