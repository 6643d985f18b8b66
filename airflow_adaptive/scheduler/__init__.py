"""The adaptive scheduler: a pure function of state and event, after Flink's adaptive scheduler (FLIP-160).

Nothing here reads a clock, does I/O, logs, draws random numbers or knows Airflow or Spark: time and chance come in on
the events, and what is to be done goes out as commands.
"""
