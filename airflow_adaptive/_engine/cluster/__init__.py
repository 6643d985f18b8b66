"""The cluster that the loops of one process share: one poll, one calculation of capacity shares."""
