# To be sourced: what installs something for the whole machine needs root.

as_root() { # runs a command as root; fails, and does not ask for a password, if that is not possible
  if [[ "$(id -u)" -eq 0 ]]; then "$@"; else sudo -n "$@"; fi
}
