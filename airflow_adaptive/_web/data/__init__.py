"""Data layer of the REST API and the command line: jobs in the metadata database, published states and control requests."""
