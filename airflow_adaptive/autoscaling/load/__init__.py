"""The load policy: as many slots as the load requires."""
