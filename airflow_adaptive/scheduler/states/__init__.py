"""One file per state: what each event means there. The states' data is in `state`, entering them in `moves`."""
