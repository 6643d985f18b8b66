"""The fleet simulator: many jobs in several processes, over one simulated environment, in virtual time, from one seed."""
