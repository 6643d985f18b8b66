"""The output of a driver's container, from which Python and the JVM are separated."""

from __future__ import annotations

from airflow_adaptive._clusters.kubernetes.client import separated
from airflow_adaptive._core.ports import DriverLog

LOG = """\
NOTE: Picked up JDK_JAVA_OPTIONS: -XX:+UseSerialGC
26/11/23 06:46:04 WARN NativeCodeLoader: Unable to load native-hadoop library
the last output of the driver
Traceback (most recent call last):
  File "/jobs/failing.py", line 4, in <module>
    import no_such_module
ModuleNotFoundError: No module named 'no_such_module'
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/23 06:46:07 ERROR SparkContext: failed
java.lang.IllegalStateException: closed
"""

UNCAUGHT = """\
Exception in thread "main" org.apache.spark.SparkException: External scheduler cannot be instantiated
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)
Caused by: java.net.UnknownHostException: kubernetes.default.svc
\t... 15 more
"""

BY_PYTHON = """\
py4j.protocol.Py4JJavaError: An error occurred while calling o1.start.
: org.apache.spark.SparkException: lost
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)
Caused by: java.io.IOException: disk
"""


def test_lines_of_the_jvm_are_no_part_of_the_exception_of_python() -> None:
    written = separated(LOG)
    assert written.stdout.startswith("the last output of the driver\nTraceback")
    assert written.stdout.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")
    words = ["NOTE:", "26/11/23", "Using", "26/11/23", "java.lang.IllegalStateException:"]
    assert [line.split()[0] for line in written.stderr.splitlines()] == words


def test_a_stack_trace_stays_with_its_first_line() -> None:
    assert separated(f"before\n{UNCAUGHT}after\n") == DriverLog(stdout="before\nafter\n", stderr=UNCAUGHT)
    assert separated(BY_PYTHON) == DriverLog(stdout=BY_PYTHON)
