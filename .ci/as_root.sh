# Functions for the scripts that install packages of the system. Source this file.

as_root() { # Runs a command as root. Fails without a password prompt if the user may not do so.
  if [[ "$(id -u)" -eq 0 ]]; then "$@"; else sudo -n "$@"; fi
}
