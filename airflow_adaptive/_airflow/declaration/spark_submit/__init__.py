"""The parameters of `SparkSubmitOperator`: those that `AdaptiveSparkOperator` also has, and what to use instead of the others."""
