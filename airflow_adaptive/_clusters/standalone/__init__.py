"""Client of a Spark standalone cluster."""
