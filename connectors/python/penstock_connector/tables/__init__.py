"""A kit for sinks whose datasets are tables: warehouses, databases, indexes.

The README is a table sink in 200 lines. In the order in which rows meet them:

- `sink`        `TableSink`, the base of a sink; `RowStaging` keeps its rows until they count
- `config`      `TableKeys`: the keys of Kafka Connect's JDBC sinks, with their meanings
- `names`       how a database writes names; which table a dataset is in
- `mapping`     which fields of a row are columns, and which are the key: `pk.mode`
- `columns`     a table and its columns; `types` what a field tells that its type does not
- `evolution`   what has to be made or added, so that rows fit into a table
- `routing`     rows of one schema on their way into one table, rejected one by one
- `fitting`     what a column can hold; `casting` values of one type as those of another
- `changes`     what inserts, updates, deletes and truncations come to
- `writes`      what the rows of a transaction come to: a few statements for each table
- `ledger`      how far each task is, and who may write for it
"""
