"""What the sources of changes share: a snapshot in chunks beside a log.

- `progress`    how far a snapshot is: tables that are left, windows that the log has not passed
- `chunks`      one chunk: a range of keys of a table, read in a thread, handed over in pieces
- `snapshot`    which chunks are read now, and what follows a failure
- `rows`        the reserved columns
- `keys`        the keys that both have; `debezium_keys` those of Debezium that they do not have
- `row_adjustments`   what is changed of rows on their way out; `message_keys` their keys
- `envelopes`   Debezium's form of rows; `transactions` the place of a change in its transaction
- `snapshot_statements`   what is read in place of tables
- `signals`     rows of the database that ask for tables to be read
- `selection`   include and exclude lists
- `waiting`     a bell that ends waits, and a timer
"""
