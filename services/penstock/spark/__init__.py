"""The engine: Spark, kept warm, with one plan per task and schema. The only room that imports
pyspark.

In the driver:

- `settings`       what can be set, and Spark's settings that were measured
- `gateway`        the JVM's process, and the connection to it
- `environment`    which of the worker's variables the JVM has
- `archive`        classes that the JVM need not load one by one
- `session`        starts and stops both, with a Spark session
- `plan`           read end → steps → write end, analysed once
- `admission_queue`, `spark_jobs`  who runs next when the engine is busy; what runs, to be cancelled
- `frozen_times`   refuses plans with a time that Spark computes once
- `failures`       what an exception of pyspark means
- `engine`         the one queue of jobs of this process

In the executors:

- `worker_daemon`  the process that forks Spark's Python workers, made cheap
- `lanes`          the functions that a plan is made of
- `ends`           read end and write end of a slot, by kind

In both:

- `schema`         which Arrow types Spark takes, and how the others are brought there
- `report`         the rows that a job returns
- `rejected_rows`  rows that fail in a chain, and how they leave the others alone

This module stays empty of imports: executors import it with every function they are sent.
"""
