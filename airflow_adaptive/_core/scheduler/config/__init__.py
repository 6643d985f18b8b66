"""Options of the scheduler: the table of options, and the parsers of their values."""
