"""Failure reports: the error class, the causes and the message of exceptions of Python, of the JVM and of Spark's Kafka connector."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol import failures
from airflow_adaptive._core.protocol.failures import (
    MAX_MESSAGE_CHARACTERS,
    ChainedError,
    python_errors,
    redact,
    report_build_failure,
    report_chain,
    report_exception,
    report_throwable,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_recoverable

STREAM = "org.apache.spark.sql.streaming.StreamingQueryException"
TRACEBACK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "job.py", line 12, in write
    frame["carrier"]
    ~~~~~^^^^^^^^^^^
  KeyErrorLike: no
{error}
"""


class Throwable:
    """A Java exception as Py4J shows it."""

    def __init__(self, name: str, message: str | None, cause: Throwable | None = None, caller: str = "") -> None:
        self._name, self._message, self._cause, self._caller = name, message, cause, caller

    def getStackTrace(self) -> list[Any]:
        return [SimpleNamespace(getClassName=lambda: self._caller)]

    def getClass(self) -> Throwable:
        return self

    def getName(self) -> str:
        return self._name

    def getMessage(self) -> str | None:
        return self._message

    def getCause(self) -> Throwable | None:
        return self._cause


def test_a_query_is_named_by_the_condition_of_its_cause():
    cause = Throwable("org.apache.spark.SparkArithmeticException", "[DIVIDE_BY_ZERO] Division by zero.")
    report = report_throwable(Throwable(STREAM, "[STREAM_FAILED] Query [id = 1] terminated: ...", cause), "departures")
    assert report.error_class == "DIVIDE_BY_ZERO"
    assert report.message == "[DIVIDE_BY_ZERO] Division by zero."
    assert report.causes == (STREAM, "org.apache.spark.SparkArithmeticException")
    assert report.query == "departures"


def test_method_that_a_jar_lacks_is_reported_with_the_class_that_calls_it():
    cause = Throwable(
        "java.lang.NoSuchMethodError",
        "'Format org.apache.spark.Format.copy(boolean)'",
        caller="org.apache.spark.sql.delta.Catalog",
    )
    report = report_throwable(Throwable(STREAM, "[STREAM_FAILED] terminated", cause), "departures")
    assert (
        report.message == "'Format org.apache.spark.Format.copy(boolean)', called by org.apache.spark.sql.delta.Catalog"
    )


def test_a_python_exception_inside_the_jvm_is_a_cause_of_its_own():
    chain = [
        ChainedError(STREAM, "[STREAM_FAILED] [FOREACH_BATCH_USER_FUNCTION_ERROR] ..."),
        ChainedError("py4j.Py4JException", TRACEBACK.format(error="KeyError: 'carrier'")),
    ]
    report = report_chain(chain, "q")
    assert report.error_class == "KeyError"
    assert report.message == "'carrier' (job.py:12)"
    assert report.causes == (STREAM, "py4j.Py4JException", "KeyError")


@pytest.mark.parametrize(
    "wrapper", ["STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"]
)
def test_condition_that_only_wraps_a_cause_names_no_failure(wrapper: str):
    report = report_chain([ChainedError(STREAM, f"[{wrapper}] ..."), ChainedError("java.io.IOException", "disk full")])
    assert report.error_class == "java.io.IOException"


def test_traceback_without_frames_has_the_whole_message():
    assert python_errors("Traceback (most recent call last):\nXXError: no") == [ChainedError("XXError", "no")]


def test_a_condition_beats_the_python_exception_that_it_reports():
    message = "[PYTHON_EXCEPTION] from the Python worker: " + TRACEBACK.format(
        error="my.module.Odd: x\n SQLSTATE: 38000"
    )
    report = report_chain([ChainedError("org.apache.spark.api.python.PythonException", message)])
    assert report.error_class == "PYTHON_EXCEPTION"
    assert report.message == "[PYTHON_EXCEPTION] my.module.Odd: x SQLSTATE: 38000 (job.py:12)"
    assert report.causes[-1] == "my.module.Odd"


def test_error_of_a_query_names_its_cause_and_its_line_once():
    """Spark appends the codes of its wrappers and the query. The identifiers of the run would differ in equal failures."""
    description = "=== Streaming Query ===\nIdentifier: [id = 1, runId = 2]\nCurrent Committed Offsets: {}\n\nLogical Plan:\nProject"
    message = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: "
    exception: dict[str, object] = {"error": RuntimeError}
    code = f"{message}{TRACEBACK.format(error='ValueError: cannot save').rstrip()}\n SQLSTATE: 39000 SQLSTATE: XXKST\n{description}"
    lines = compile("\n" * 11 + f"raise error({code!r})", "job.py", "exec")
    with pytest.raises(RuntimeError) as caught:
        exec(lines, exception)
    report = report_exception(caught.value)
    assert (report.error_class, report.message) == ("ValueError", "cannot save (job.py:12)")


LOST = (
    "Some data may have been lost because they are not available in Kafka any more;\neither the data was aged out by Kafka or the topic may "
    "have been deleted before all the data in the\ntopic was processed.\nIf you don't want your streaming query to fail on such cases, set "
    "the source option failOnDataLoss to false.\nReason: {reason}"
)
"""A message of the connector 4.2.0."""

KAFKA_ERROR = "org.apache.spark.sql.kafka010.KafkaIllegalStateException"


@pytest.mark.parametrize(
    ("reason", "condition"),
    [
        ("Starting offset for t-0 was 6 but consumer reset to 10.", "START_OFFSET_RESET"),
        ("Could not read records in offset [6, 26) for topic partition t-0", "COULD_NOT_READ_OFFSET_RANGE"),
        ("Added partition t-1 starts from 10 instead of 0.", "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"),
        ("Partition t-0 offset was changed from 6 to 0.", "PARTITION_OFFSET_CHANGED"),
        ("Partitions Set(t-0) have been deleted.", "PARTITIONS_DELETED"),
        ("Cannot find initial offsets for partitions Set(t-1).", "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"),
    ],
)
def test_lost_records_of_kafka_are_named_by_their_condition(reason: str, condition: str):
    report = report_chain(
        [ChainedError(STREAM, "[STREAM_FAILED] ..."), ChainedError(KAFKA_ERROR, LOST.format(reason=reason))]
    )
    assert report.error_class == f"KAFKA_DATA_LOSS.{condition}"
    assert report.message.startswith(
        f"[KAFKA_DATA_LOSS.{condition}] {reason.rstrip('.')}. To continue without these records, "
    )
    assert "set the option failOnDataLoss of the source to false" in report.message


def test_an_exception_of_spark_in_a_function_of_foreach_batch_keeps_its_condition():
    reason = "Starting offset for t-0 was 6 but consumer reset to 10."
    error = (
        "py4j.protocol.Py4JJavaError: An error occurred while calling o88.save.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times\n"
        "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)\n"
        f"Caused by: {KAFKA_ERROR}: {LOST.format(reason=reason)}\n"
        "\tat org.apache.spark.sql.kafka010.KafkaExceptions$.startOffsetReset(KafkaExceptions.scala:60)"
    )
    chain = [
        ChainedError(STREAM, "[STREAM_FAILED] ..."),
        ChainedError("py4j.Py4JException", TRACEBACK.format(error=error)),
    ]
    report = report_chain(chain, "q")
    assert report.error_class == "KAFKA_DATA_LOSS.START_OFFSET_RESET"
    assert report.message.startswith(
        f"[KAFKA_DATA_LOSS.START_OFFSET_RESET] {reason} To continue without these records, "
    )
    assert report.message.endswith(" (job.py:12)")
    assert report.causes[-3:] == ("py4j.protocol.Py4JJavaError", "org.apache.spark.SparkException", KAFKA_ERROR)


STAGE = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 7) "
    "(10.0.0.5 executor 1): {cause}\n\nDriver stacktrace:"
)
SPARK = "org.apache.spark.SparkException"
LOAD = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030"
LOAD_TRACE = (
    f"org.apache.spark.sql.execution.streaming.state.StateStoreUncategorized: {LOAD}\n"
    "\tat org.apache.spark.sql.execution.streaming.state.RocksDB.load(RocksDB.scala:1)\n"
    "Caused by: java.io.EOFException: Stream ended prematurely\n"
    "\tat java.base/java.io.DataInputStream.readFully(DataInputStream.java:1)\n\t... 20 more"
)
TIMEOUT = "Stream Execution thread for stream q failed to stop within 10000 milliseconds"
FORBIDDEN = 'pods "job-1" is forbidden: User "system:serviceaccount:spark:weak" cannot get resource "pods"'
NO_SCHEDULER = f"""Traceback (most recent call last):
  File "/jobs/departures.py", line 7, in <module>
    SparkSession.builder.getOrCreate()
py4j.protocol.Py4JJavaError: An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: External scheduler cannot be instantiated
\tat org.apache.spark.SparkContext$.org$apache$spark$SparkContext$$createTaskScheduler(SparkContext.scala:3204)
Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Operation: [get] for kind: [Pod] failed.
\tat io.fabric8.kubernetes.client.KubernetesClientException.launderThrowable(KubernetesClientException.java:159)
\t... 14 more
Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: GET at: https://h/pods/x. Message: {FORBIDDEN}.
\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.requestFailure(OperationSupport.java:660)
"""


@pytest.mark.parametrize(
    ("links", "error_class", "message"),
    [
        pytest.param(
            [("java.util.concurrent.TimeoutException", TIMEOUT), (SPARK, "The stream thread was last executing:")],
            "java.util.concurrent.TimeoutException",
            TIMEOUT,
            id="an artificial exception that only contains a stack",
        ),
        pytest.param(
            [(STREAM, "[STREAM_FAILED] ..."), (SPARK, STAGE.format(cause=LOAD_TRACE))],
            "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED",
            f"{LOAD}; caused by java.io.EOFException: Stream ended prematurely",
            id="a condition in the text of a failed task",
        ),
        pytest.param(
            [(STREAM, "[STREAM_FAILED] ..."), (SPARK, LOAD), ("java.io.EOFException", "Stream ended prematurely")],
            "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED",
            f"{LOAD}; caused by java.io.EOFException: Stream ended prematurely",
            id="a condition and its cause",
        ),
        pytest.param(
            [(SPARK, LOAD), (SPARK, "[STATE_STORE_SNAPSHOT] The file 12.zip is missing")],
            "STATE_STORE_SNAPSHOT",
            "[STATE_STORE_SNAPSHOT] The file 12.zip is missing",
            id="a specific condition below an unspecific one",
        ),
        pytest.param(
            [(SPARK, "[TASK_WRITE_FAILED] Failed."), ("java.nio.channels.ClosedChannelException", "")],
            "TASK_WRITE_FAILED",
            "[TASK_WRITE_FAILED] Failed.; caused by java.nio.channels.ClosedChannelException",
            id="a condition and a cause without a message",
        ),
        pytest.param(
            [("java.io.IOException", "Cannot write /data/1"), (SPARK, "Job aborted."), (SPARK, "")],
            "java.io.IOException",
            "Cannot write /data/1",
            id="innermost messages that name no cause",
        ),
        pytest.param(
            [("java.io.IOException", "Cannot write /data/1"), ("java.lang.NullPointerException", "null")],
            "java.io.IOException",
            "Cannot write /data/1; caused by java.lang.NullPointerException",
            id="the text null",
        ),
        pytest.param(
            [
                (
                    SPARK,
                    STAGE.format(cause="ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 137"),
                )
            ],
            SPARK,
            "ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 137",
            id="a failed task without an exception",
        ),
        pytest.param(
            [("RuntimeError", "the table of carriers is missing"), ("KeyError", "'carrier'")],
            "KeyError",
            "'carrier'; reported as RuntimeError: the table of carriers is missing",
            id="a cause and what its author says about it",
        ),
        pytest.param(
            [
                ("java.io.IOException", 'Cannot run "python3": error=2, No such file'),
                ("java.io.IOException", "error=2, No such file"),
            ],
            "java.io.IOException",
            'Cannot run "python3": error=2, No such file',
            id="an exception that quotes its cause",
        ),
        pytest.param(
            [(SPARK, "Failed to connect to /10.0.0.1:7077:\njava.net.ConnectException: refused")],
            "java.net.ConnectException",
            f"refused; reported as {SPARK}: Failed to connect to /10.0.0.1:7077",
            id="an exception in the text of another one",
        ),
        pytest.param(
            [(STREAM, "[STREAM_FAILED] terminated with exception: null"), ("java.lang.StackOverflowError", "")],
            "java.lang.StackOverflowError",
            "[STREAM_FAILED] terminated with exception: null",
            id="only wrappers",
        ),
    ],
)
def test_the_reason_is_the_link_that_names_the_cause(links: list[tuple[str, str]], error_class: str, message: str):
    report = report_chain([ChainedError(name, text) for name, text in links])
    assert (report.error_class, report.message) == (error_class, message)


def test_the_cause_below_a_java_stack_trace_in_a_traceback_is_the_reason():
    report = report_chain(python_errors(NO_SCHEDULER))
    assert report.error_class == "io.fabric8.kubernetes.client.KubernetesClientException"
    assert FORBIDDEN in report.message
    assert report.message.endswith("(departures.py:7)")


def test_a_long_condition_does_not_displace_its_cause():
    report = report_chain(
        [ChainedError(SPARK, "[LONG] " + "word " * 1000), ChainedError("java.io.IOException", "disk full")]
    )
    assert len(report.message) < 1000
    assert report.message.endswith("word ...; caused by java.io.IOException: disk full")


def test_conditions_of_deeper_causes_are_causes():
    report = report_chain(
        [ChainedError(SPARK, "[TASK_WRITE_FAILED] no"), ChainedError(SPARK, "[INVALID_LOG_VERSION] no")]
    )
    assert report.causes == (SPARK, "INVALID_LOG_VERSION")


def test_nested_exceptions_in_a_text_are_bounded():
    assert report_chain([ChainedError("A", "a.BError: " * 20_000)]).error_class == "a.BError"


def test_python_exceptions_are_followed_by_cause_and_context():
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ImportError("outer") from error
    except ImportError as error:
        report = report_exception(error)
    assert report.causes == ("ImportError", "KeyError")
    assert report.query is None


def test_exceptions_of_pyspark_show_the_ones_of_the_jvm():
    class AnalysisException(Exception):
        _origin = Throwable("org.apache.spark.sql.ExtendedAnalysisException", "[UNRESOLVED_COLUMN.WITH_SUGGESTION] `x`")

    report = report_exception(AnalysisException("x"))
    assert report.error_class == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert report.causes[0].endswith("AnalysisException")
    assert report.causes[1] == "org.apache.spark.sql.ExtendedAnalysisException"


def test_a_cyclic_chain_of_exceptions_ends():
    looped = Throwable("A", None)
    looped._cause = looped
    assert report_throwable(looped, "q").causes == ("A",)


def test_secrets_are_redacted():
    message = redact(
        "url jdbc:x?user=a&password=geheim, fs.s3a.secret.key: abc, s3://me:pass@host/x access_key='k1' ok=1"
    )
    assert message == "url jdbc:x?user=a&password=***, fs.s3a.secret.key: ***, s3://***@host/x access_key='***' ok=1"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("db: my.password=hush", "db: my.password=***"),
        ("the access key: hush, region: eu", "the access key: ***, region: eu"),
        ("{'token': 'hush', 'id': 7}", "{'token': '***', 'id': 7}"),
        ("a=secret=hush b=c", "a=secret=*** b=c"),
        ("the token count: 5", "the token count: 5"),
        ("oauth-token = hush", "oauth-token = ***"),
    ],
)
def test_assigned_secrets_are_redacted(text: str, redacted: str):
    assert redact(text) == redacted


@pytest.mark.parametrize("word", ["token.", "api.key.token.", "sas.", "password=", "a ", "a=", "://a:"])
def test_a_long_message_is_redacted_in_linear_time(word: str):
    assert redact(word * 100_000).startswith(word[:2])


def test_credentials_of_urls_are_redacted():
    message = redact("no route to postgresql://me:p/w@host/db, https://ghp123@host/x, http://h:8080/users/@me")
    assert message == "no route to postgresql://***@host/db, https://***@host/x, http://h:8080/users/@me"


def test_long_messages_end_after_a_word():
    message = redact("first " + "word " * 1000 + "last")
    assert MAX_MESSAGE_CHARACTERS - 10 < len(message) <= MAX_MESSAGE_CHARACTERS
    assert message.startswith("first word")
    assert message.endswith("word word ...")
    assert redact("x" * 2000) == "x" * 2000
    assert redact("x" * 2001) == "x" * 1996 + " ..."


def test_the_authors_line_is_reported():
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("no number")
    assert re.search(r"\(test_failures\.py:\d+\)$", report_exception(raised.value).message)


def test_an_exception_of_the_build_function_is_marked():
    report = report_build_failure(ValueError("no number"))
    assert (report.error_class, report.message) == ("ValueError", "no number")
    assert report.causes == (FailureCode.BUILD_FUNCTION_ERROR, "ValueError")


def test_a_registered_secret_is_in_no_report(monkeypatch):
    monkeypatch.setattr(failures, "_secrets", set())
    failures.register_secrets(["hush-hush", "hush-hush-hush", "on", "false"])
    assert redact("on h1 false repeats hush-hush-hush, then hush-hush") == "on h1 false repeats ***, then ***"


def test_parts_of_registered_secrets_are_redacted():
    failures.register_secrets(["jdbc:mysql://db/x?user=u&password=hunter2x", "amqp://me:carrot9@h"])
    assert redact("login failed for hunter2x and carrot9") == "login failed for *** and ***"


@pytest.mark.parametrize(
    "message",
    [
        "Fetch position FetchPosition{offset=6041, offsetEpoch=Optional[0], currentLeader=x} is out of range for partition r3-1",
        "Offsets out of range with no configured reset policy for partitions: {r3-1=6041}",
    ],
)
def test_lost_records_in_real_time_mode_have_the_remedy_that_works_there(message: str):
    chain = [
        ChainedError(STREAM, "[STREAM_FAILED] ..."),
        ChainedError(
            "org.apache.spark.SparkException", f"Job aborted due to stage failure: OffsetOutOfRange: {message}"
        ),
        ChainedError("org.apache.kafka.clients.consumer.OffsetOutOfRangeException", message),
    ]
    report = report_chain(chain)
    assert report.error_class == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    assert report.message == (
        f"[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] {message}. To begin again, delete the checkpoint of the query; "
        "Real-Time Mode does not read the option failOnDataLoss"
    )
    failure = Failure(error_class=report.error_class, message=report.message, causes=report.causes)
    assert not is_recoverable(failure)
