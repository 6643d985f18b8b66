"""The protocol between the loop and the driver: documents, their codec, and Spark properties.

The only package of `job` that other packages import. It needs the standard library only.
"""
