"""The cost of a rescale: each rescale tier on an embedded Spark cluster, and Flink's adaptive scheduler for comparison.

A job counts records by key, from files that a process of its own writes at a fixed rate, whatever the job does. It runs
under the real loop, its parallelism goes down and up again, and what that cost is read from Spark's own event log and
Flink's own log. Both get the same files, and what comes out of both is compared with the truth.
"""
