#!/usr/bin/env bash
# Builds versitygw, the S3 server of the tests (tests/support/s3), from Go modules, and prints its path. With the argument `path`, only prints the
# path. The folder is outside the checkout and named after the sources, so that every checkout uses the same build. The first build takes about
# 3 minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tests/support/s3/programs"

readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/airflow-adaptive/s3"
KEY=$(cat go.mod go.sum | sha256sum | cut -c 1-16)
readonly PROGRAM="$CACHE/$KEY/versitygw"

if [[ "${1:-}" == path ]]; then
  echo "$PROGRAM"
  exit 0
fi
if ! command -v go >/dev/null; then
  echo "The tests on S3 need Go to build versitygw. Install Go (https://go.dev/dl), then try again." >&2
  exit 1
fi
mkdir -p "$(dirname "$PROGRAM")"
exec 9>"$(dirname "$PROGRAM")/.lock"
flock 9 # A second build waits for the first one and then finds the program.
if [[ ! -x "$PROGRAM" ]]; then
  echo "Building versitygw for the tests on S3." >&2
  CGO_ENABLED=0 nice -n 19 go build -buildvcs=false -ldflags "-s -w" -o "$PROGRAM.new" github.com/versity/versitygw/cmd/versitygw >&2
  mv "$PROGRAM.new" "$PROGRAM"
fi
echo "$PROGRAM"
