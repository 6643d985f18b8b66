"""The task decorator `@task.adaptive_spark`."""
