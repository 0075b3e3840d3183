"""Rejected rows of a task, and its dead letters.

- `rejected_rows`       how many rejected rows are tolerated, and what happens to them
- `dead_letter_writer`  writes dead letters into the transactions of the task
- `replay`              the source reader of a connector that replays dead letters
- `raw_rows`            rows that the source could not read, parsed by it once more
"""
