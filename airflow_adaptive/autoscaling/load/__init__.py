"""The load policy advises as many slots as the load of the job requires."""
