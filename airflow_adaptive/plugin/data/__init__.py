"""The data behind the REST API and the command line: jobs in the metadata database, and control requests."""
