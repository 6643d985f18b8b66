"""The parameters of `SparkSubmitOperator` that `AdaptiveSparkOperator` does not have, and what to use instead."""

from __future__ import annotations

YARN = "leave it out, because airflow-adaptive runs jobs on standalone clusters and on Kubernetes only"

TRACKED = "leave it out, because the scheduler observes the driver"

KERBEROS = "leave it out, because airflow-adaptive does not support Kerberos"

INSTEAD = {
    "config_kwargs": "use the parameter 'conf'",
    "deploy_mode": "leave it out, because the driver always runs on the cluster",
    "durable": "leave it out, because a retry always continues with the running driver",
    "env": "use the parameter 'env_vars'",
    "java_class": "leave it out, because airflow-adaptive runs PySpark scripts only; use SparkSubmitOperator for JVM applications",
    "keytab": KERBEROS,
    "num_executors": "use parallelism=(lower, upper): bounds of the slots, which are the cores of all executors",
    "post_submit_commands": "leave it out, and run the commands in a task that follows",
    "principal": KERBEROS,
    "proxy_user": "leave it out, because a driver runs as the user of its worker, or of its image",
    "reconnect_on_retry": "leave it out, because a retry always continues with the running driver",
    "spark_binary": "leave it out, because no spark-submit runs in Airflow; for a batch, set the extra field 'spark-binary' of the connection",
    "status_poll_interval": "use the option 'poll_interval'",
    "total_executor_cores": "use parallelism=(lower, upper): bounds of the slots, which are the cores of all executors",
    "track_driver_via_k8s_api": TRACKED,
    "use_krb5ccache": KERBEROS,
    "verbose": "leave it out, and set spark.log.level in `conf`",
    "yarn_queue": YARN,
    "yarn_rm_auth": YARN,
    "yarn_track_via_rm_api": YARN,
}
"""Parameter -> what to do instead."""
