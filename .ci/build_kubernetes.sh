#!/usr/bin/env bash
# Builds the programs of the test cluster (tests/support/kubernetes) from Go modules, and prints the folder that contains the programs. With the
# argument `folder`, only prints the folder. The folder is outside the checkout and named after the sources, so that every checkout uses the same
# build. The first build takes about 8 minutes and 4 GB of disk.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tests/support/kubernetes/programs"

readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/airflow-adaptive/kubernetes"
KEY=$(cat go.mod go.sum pause/main.go | sha256sum | cut -c 1-16)
readonly FOLDER="$CACHE/$KEY"
readonly PROGRAMS=(pause etcd kube-apiserver kube-controller-manager kube-scheduler kubelet)

package_of() {
  case "$1" in
    pause) echo ./pause ;;
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

version_flags() { # Without these flags the API server reports version v0.0.0.
  local version package="k8s.io/component-base/version"
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  echo "-s -w -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
}

build() {
  echo "Building $1 for the tests on Kubernetes." >&2
  CGO_ENABLED=0 nice -n 19 go build -buildvcs=false -ldflags "$(version_flags)" -o "$FOLDER/$1.new" "$(package_of "$1")" >&2
  mv "$FOLDER/$1.new" "$FOLDER/$1"
}

if [[ "${1:-}" == folder ]]; then
  echo "$FOLDER"
  exit 0
fi
if ! command -v go >/dev/null; then
  echo "The tests on Kubernetes need Go to build the cluster's programs. Install Go (https://go.dev/dl), then try again." >&2
  exit 1
fi
mkdir -p "$FOLDER"
exec 9>"$FOLDER/.lock"
flock 9 # A second build waits for the first one and then finds the programs.
for program in "${PROGRAMS[@]}"; do
  [[ -x "$FOLDER/$program" ]] || build "$program"
done
echo "$FOLDER"
