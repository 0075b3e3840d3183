"""What the sources of changes share: a snapshot in chunks beside a log.

- `progress`    how far a snapshot is: tables that are left, windows that the log has not passed
- `chunks`      one chunk: a range of keys of a table, read in a thread, handed over in pieces
- `snapshot`    which chunks are read now, and what follows a failure
- `rows`        the reserved columns
- `selection`   include and exclude lists
- `waiting`     a bell that ends waits, and a timer
"""
