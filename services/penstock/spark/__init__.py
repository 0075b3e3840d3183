"""The engine: runs micro-batches in one warm Spark session, with one kept plan per task and schema.
The only package that imports pyspark.

In the driver:

- `engine`           `Engine`: builds plans, runs and cancels micro-batches
- `plan`             source reader → steps → sink writer, built once: a fused plan, or a JVM plan
- `lanes`            Spark jobs that stay up, for the micro-batches of fused plans
- `lane_tls`         the certificate by which lanes on other machines know the driver
- `admission_queue`  which micro-batch runs next when the engine is busy
- `spark_jobs`       the jobs that run, their cancellation, and tasks that compute on after it
- `failures`         translates exceptions of pyspark
- `jvm`              starts and stops the JVM and its Spark session; the variables that it gets
- `settings`         settings of the engine, and measured settings of Spark
- `archive`          makes the archive of classes that shortens the start of the JVM

In the executors:

- `lane_loop`            takes tickets from the driver, and moves the rows of one after another
- `partition_functions`  the functions of a plan, which run for a slot
- `connector_io`         source reader and sink writer of a slot
- `worker_daemon`        the process that forks Spark's Python workers

In both:

- `schema`         converts Arrow types into those that Spark takes
- `rejected_rows`  tracks rejected rows on their way through a chain
- `slot_reports`   what a slot reports to the driver

This module imports nothing: executors import it with every function that they receive.
"""
