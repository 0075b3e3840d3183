"""`file-sink`: files of rows, exactly once.

A transaction is staged in hidden files in the final encoding, prepared by writing down which of
them goes where, and committed by renaming them, or by appending them inside the kernel.

- `sink`      the task
- `encode`, `jsontext`   rows to bytes
- `staging`   the hidden files of one attempt at a slot
- `writes`    what goes where: pure, and the state that the host keeps; `spill` when it is large
- `apply`     makes it visible, once, whatever a crash left
- `place`     a target and its hidden folder: opened, checked, owned; `places` has them by dataset
- `disk`      every step that touches the disk
- `config`    the keys
"""

from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.sink import FileSink

__all__ = ["FileSink", "FileSinkConfig"]
