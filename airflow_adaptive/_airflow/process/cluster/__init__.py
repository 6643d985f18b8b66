"""The cluster of a job: its connections, and the client of its cluster manager."""
