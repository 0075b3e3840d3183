"""The engine: Spark, kept warm, with one plan per task and schema. The only room that imports
pyspark.

- `settings`       what can be set, and Spark's settings that were measured
- `session`        starts and stops the Spark session
- `worker_daemon`  the process that forks Spark's Python workers, made cheap
- `schema`         which Arrow types Spark takes, and how the others are brought there
- `report`         the rows that a job returns
- `ends`           what runs in the executors: read end and write end, by kind
- `plan`           read end → steps → write end, analysed once
- `gate`           who runs next, when the engine is busy
- `engine`         the one queue of jobs of this process

This module stays empty of imports: executors import it with every function they are sent.
"""
