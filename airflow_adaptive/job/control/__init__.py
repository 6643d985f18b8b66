"""The driver loop: it reads directives from the journal, executes them, and writes the driver status.

No module imports pyspark or py4j at module level, so that tests can run the driver loop without Spark.
"""
