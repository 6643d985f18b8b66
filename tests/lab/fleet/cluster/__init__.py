"""The Spark cluster of the fleet simulator: masters, workers, and driver processes with the real driver loop."""
