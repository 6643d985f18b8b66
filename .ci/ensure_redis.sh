#!/usr/bin/env bash
# The tests of Airflow's CeleryExecutor (tests/support/databases) start a Redis server of their own. Finds redis-server, or installs the package of
# Debian or Ubuntu, or prints instructions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/as_root.sh"

install_package() { # Only the program is needed: the service of the system must not start.
  command -v apt-get >/dev/null || return 1
  as_root apt-get update -qq || true
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends redis-server
}

command -v redis-server >/dev/null && exit 0
echo "The tests of the CeleryExecutor need Redis; installing redis-server with the system's package manager." >&2
install_package >&2 || true
if ! command -v redis-server >/dev/null; then
  echo "Redis could not be installed (no apt-get, no root permission, or no network). Install it (Debian, Ubuntu:" \
    "sudo apt-get install redis-server), then try again." >&2
  exit 1
fi
