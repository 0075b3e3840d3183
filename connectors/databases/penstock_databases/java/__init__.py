"""Any other database that has a JDBC driver: its driver runs in a JVM inside the plugin's process.

- `url`         which URLs are taken: a place and harmless options
- `drivers`     where drivers (jars) are found, and the one JVM of the process
- `connection`  sessions; `failing` tells people what a driver said
- `types`       types of JDBC as types of rows; `catalog` finds tables and columns
- `reading`     rows of results as Arrow columns
- `dialect`     the port that connectors see

Why not through Spark's own `jdbc` format: there each query is one whole read without a place to go
on from. Here the rows take the way that all take: offsets, settling, late commits, new tables and
back-pressure are those of `jdbc_source`, for every driver alike.
"""
