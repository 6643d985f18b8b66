"""The journal: the write-ahead record of every step in the job directory."""
