"""`delta-sink`: rows of a dataset in a Delta table, exactly once.

- `sink`      the task: staged files become one entry of the table's log
- `table`     the table, by the library that knows the format
- `merging`   what rows come to where the last one of a key counts
- `staging`   Parquet files that the table does not know yet
- `types`     Arrow types that tables have; how a table grows
"""

from penstock_builtin.delta_sink.sink import DeltaSink, DeltaSinkConfig

__all__ = ["DeltaSink", "DeltaSinkConfig"]
