"""The routes of the REST API, with one module for each subject."""
