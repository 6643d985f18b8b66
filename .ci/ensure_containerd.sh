#!/usr/bin/env bash
# The nodes of the test cluster (tests/support/kubernetes) run containers, and pull images from a registry of the tests. Finds containerd, runc, the CNI
# plugins and the registry, or installs the packages of Debian or Ubuntu, or prints instructions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/as_root.sh"

readonly PACKAGES=(containerd runc containernetworking-plugins iptables conntrack docker-registry)

has_packages() {
  local program
  for program in containerd ctr runc iptables conntrack ip docker-registry; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || return 1
  done
  [[ -x /usr/lib/cni/bridge && -x /usr/lib/cni/host-local && -x /usr/lib/cni/loopback ]]
}

install_packages() { # Only the programs are needed: a service of the system must not start.
  command -v apt-get >/dev/null || return 1
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" iproute2
}

has_packages && exit 0
echo "The tests on Kubernetes need containerd; installing ${PACKAGES[*]} with the system's package manager." >&2
install_packages >&2 || true
if ! has_packages; then
  echo "containerd, runc, the CNI plugins and docker-registry could not be installed (no apt-get, no root permission, or no network). Install them (Debian, Ubuntu:" \
    "sudo apt-get install ${PACKAGES[*]}), then try again." >&2
  exit 1
fi
