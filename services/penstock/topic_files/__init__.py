"""The files of an embedded topic, as executors write and read them: pure Arrow and files, no Delta
log.

- `placing`  which partition a row goes to
- `writing`  rows into Parquet files that no reader sees until the driver commits them
- `reading`  rows out of the files that the driver names
"""

from penstock.topic_files.reading import read_files
from penstock.topic_files.writing import INDEX, write_files

__all__ = ["INDEX", "read_files", "write_files"]
