"""What runs inside the Spark driver; ships to the cluster as a zip and needs nothing but pyspark."""
