#!/bin/bash
# Starts a driver, an executor or any other command, with the same arguments and environment as the entry point of Spark's own image.
set -euo pipefail

role="${1:-}"
case "$role" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
  executor)
    options=()
    while IFS='=' read -r -d '' name value; do
      if [[ "$name" =~ ^SPARK_JAVA_OPT_([0-9]+)$ ]]; then options[BASH_REMATCH[1]]="$value"; fi
    done </proc/self/environ
    exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*:${SPARK_DIST_CLASSPATH:-}" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec "$@"
    ;;
esac
