#!/usr/bin/env bash
# The tests of the page need Chromium. Finds Chromium, or installs Chromium with the system's package manager, or prints instructions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/as_root.sh"

has_chromium() {
  command -v chromium || command -v chromium-browser || command -v google-chrome || command -v google-chrome-stable
}

install_chromium() {
  if command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium
  elif command -v dnf >/dev/null; then
    as_root dnf install -y -q chromium
  elif command -v apk >/dev/null; then
    as_root apk add --quiet chromium
  else
    return 1
  fi
}

has_chromium >/dev/null && exit 0
echo "The tests of the page need Chromium; installing it with the system's package manager." >&2
install_chromium >&2 || true
if ! has_chromium >/dev/null; then
  echo "Chromium could not be installed (no package manager, no root permission, or no network). Install Chromium (Debian, Ubuntu:" \
    "sudo apt-get install chromium) or Google Chrome, then try again." >&2
  exit 1
fi
