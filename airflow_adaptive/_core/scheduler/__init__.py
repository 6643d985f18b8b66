"""The adaptive scheduler: a pure function of state and event, after Flink's adaptive scheduler (FLIP-160).

The package uses no clock, I/O, logging, randomness, Airflow or Spark. Events carry the time, and commands describe the effects. The jitter
of a delay is a hash (`policies.restart_backoff.jitter`).
"""
