"""The queries 0, 5 and 8 of Nexmark from a topic of Kafka, on Spark under airflow-adaptive and on Flink: `make lab TASK=bench-kafka`.

Source: Nexmark (https://github.com/nexmark/nexmark). The generator, the queries and the measurements are our own.
"""
