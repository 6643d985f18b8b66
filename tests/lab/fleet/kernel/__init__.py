"""The kernel of the fleet simulator: virtual time, processes, event loops, threads and entropy."""
