#!/usr/bin/env bash
# The tests on a real database (tests/support/databases) start a PostgreSQL server of their own. Finds the programs of PostgreSQL, or installs the
# package of Debian or Ubuntu, or prints instructions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/as_root.sh"

has_programs() {
  local program
  for program in initdb postgres; do
    command -v "$program" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$program" >/dev/null || return 1
  done
}

readonly NO_CLUSTER=/etc/postgresql-common/createcluster.d/airflow-adaptive.conf

install_packages() { # Only the programs are needed: the package must neither create a cluster nor start a service.
  command -v apt-get >/dev/null || return 1
  as_root mkdir -p "$(dirname "$NO_CLUSTER")" || return 1
  echo "create_main_cluster = false" | as_root tee "$NO_CLUSTER" >/dev/null
  as_root apt-get update -qq || true
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends postgresql || true
  as_root rm "$NO_CLUSTER"
}

has_programs && exit 0
echo "The tests on a database need PostgreSQL; installing it with the system's package manager." >&2
install_packages >&2 || true
if ! has_programs; then
  echo "PostgreSQL could not be installed (no apt-get, no root permission, or no network). Install it (Debian, Ubuntu:" \
    "sudo apt-get install postgresql), then try again." >&2
  exit 1
fi
