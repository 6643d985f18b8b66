"""The cluster as the loops of one process share it: one client, one poll, one division of free capacity."""
