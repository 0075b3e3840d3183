"""`file-source`: rows of files.

- `source`    the task: `tailing` the files of this machine, or `listing` those of other places;
              `files` is what both have in common
- `finding`   which files a configuration means; the plan
- `listed`    the files as datasets, with their columns
- `appearing` what watches for new files where several tasks read
- `watch`     is told by the kernel when something changes
- `reader`    one file of lines through growth, rotation and rewriting; `open_file` reads its rows
- `placed`    one file of any other kind or place; `contents` is the port of its formats: `lines`,
              `columnar` (Parquet), `avro`
- `mark`      how far a file was read, and how to know it again; `altering` what people may set
- `chunk`, `cutting`   a block of lines, and where it may be cut
- `records`, `csvblock`, `csvtypes`   of CSV: where records end, those that are broken, inference
- `slicing`   what was read, as batches
- `text`, `matching`, `delimited`, `jsonl`   lines to rows; `encoding` comes before them, `declared`
              and `shapes` are their types
- `config`, `keys`     the keys
"""

from penstock_builtin.file_source.config import FileSourceConfig
from penstock_builtin.file_source.source import FileSource

__all__ = ["FileSource", "FileSourceConfig"]
