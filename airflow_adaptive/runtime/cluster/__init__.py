"""The cluster that the loops of one process share: one client, one poll, one calculation of capacity shares."""
