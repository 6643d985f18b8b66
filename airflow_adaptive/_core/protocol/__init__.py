"""The protocol between the scheduler loop and the Spark driver.

`documents` defines the documents of the job directory, and reads and writes them as JSON. `conf` defines the Spark properties with which a driver is
submitted, and `failures` converts exceptions to failure reports. The package requires the standard library only, because both sides import it: the
loop runs in Airflow, and the driver receives the package in the runtime's zip file.
"""
