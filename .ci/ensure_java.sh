#!/usr/bin/env bash
# Spark 4 needs Java 17 or later. Finds Java, or installs Java with the system's package manager, or prints instructions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/as_root.sh"

readonly MINIMUM=17

java_version() { # Prints the major version of the Java that Spark would use, or nothing without Java.
  local java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
  "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

has_java() {
  local found
  found=$(java_version || true)
  [[ -n "$found" && "$found" -ge "$MINIMUM" ]]
}

install_java() {
  if command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless ||
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq default-jre-headless
  elif command -v dnf >/dev/null; then
    as_root dnf install -y -q java-17-openjdk-headless || as_root dnf install -y -q java-21-openjdk-headless
  elif command -v apk >/dev/null; then
    as_root apk add --quiet openjdk17-jre-headless
  elif command -v brew >/dev/null; then
    brew install --quiet openjdk@17
    echo "Set JAVA_HOME to $(brew --prefix openjdk@17)."
  else
    return 1
  fi
}

give_up() {
  echo "$1 Install Java (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless) or set JAVA_HOME, then try again." >&2
  exit 1
}

has_java && exit 0
if [[ -n "${JAVA_HOME:-}" ]]; then
  give_up "Spark needs Java $MINIMUM or later, which JAVA_HOME=$JAVA_HOME does not contain."
fi
echo "Spark needs Java $MINIMUM or later; installing it with the system's package manager." >&2
install_java >&2 || true
has_java || give_up "Java $MINIMUM or later could not be installed (no package manager, no root permission, or no network)."
