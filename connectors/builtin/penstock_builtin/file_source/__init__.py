"""`file-source`: rows of files.

- `source`    the task: which files, in which order, when to look
- `finding`   which files a configuration means; the plan
- `appearing` what watches for new files where several tasks read
- `watch`     is told by the kernel when something changes
- `reader`    one file through growth, rotation and rewriting
- `mark`      how far a file was read, and how to know it again
- `cutting`   where a block may be cut
- `text`, `delimited`, `jsonl`   bytes to rows; `shapes` is how their schemas grow
- `config`    the keys
"""

from penstock_builtin.file_source.config import FileSourceConfig
from penstock_builtin.file_source.source import FileSource

__all__ = ["FileSource", "FileSourceConfig"]
