#!/usr/bin/env bash
# Checks the limits of the requirements. The packages that existed when a version of Airflow was released satisfy them, and so do the packages of its
# official image. With the lowest versions that they allow, an environment is consistent, and the tests of the code that uses them pass.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly UV=.venv/bin/uv LOWEST=.airflow/lowest EXTRAS=(batch kafka kubernetes local openlineage plots) STORAGES=(abfs gcs s3)
readonly TESTS=(autoscaling/calendar _airflow/declaration/test_kubernetes.py _airflow/test_kubernetes_api.py _engine/journal _clusters/kubernetes/test_api.py _clusters/kubernetes/test_pod_watch.py _clusters/standalone)
declare -rA RELEASED=([3.1.0]=2025-09-26 [3.2.0]=2026-04-15 [3.3.0]=2026-07-10) # the day after the release
export UV_SYSTEM_CERTS=1 UV_HTTP_TIMEOUT=180  # as in ensure_airflow.sh

for version in 3.1.0 3.2.0 3.3.0; do
  # shellcheck disable=SC2046
  "$UV" pip compile --quiet --python .venv/bin/python --exclude-newer "${RELEASED[$version]}" --output-file /dev/null pyproject.toml \
    $(printf -- '--extra %s ' "${EXTRAS[@]}" "${STORAGES[@]}") --constraint <(echo "apache-airflow==$version")
  echo "The packages of the day when Airflow $version was released satisfy the requirements."
done

"$UV" venv --quiet --clear --python .venv/bin/python "$LOWEST"
extras=$(IFS=,; echo "${EXTRAS[*]}")
"$UV" pip install --quiet --python "$LOWEST" --resolution lowest-direct --exclude-newer "${RELEASED[3.1.0]}" --editable ".[$extras]"
"$UV" pip check --python "$LOWEST"
"$UV" pip install --quiet --python "$LOWEST" "apache-airflow==3.1.0" greenlet hypothesis moto[server] pytest pytest-asyncio pytest-timeout s3fs schemathesis
"$LOWEST/bin/python" -m pytest -q "${TESTS[@]/#/tests/unit/}"
.venv/bin/python -m pip check # the newest versions
