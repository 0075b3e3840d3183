"""`file-sink`: files of rows, exactly once.

Rows are staged where nobody looks, in the final encoding; a commit makes them visible.

- `sink`      the task, and the port of places: `local`, `objects` and `hadoop`
- `staging`   the parts of one attempt at a slot; `partitions` which folder a row goes to
- `sheet`     one staged file; `writers` the port of formats; `encode`, `jsontext` rows to lines
- `writes`    what goes where: pure, and the state that the host keeps; `spill` when it is large
- `apply`     makes files visible, once, whatever a crash left
- `file_names` what folders and files are called
- `place`     a target and its hidden folder: opened, checked, owned; `places` has them by dataset
- `disk`      every step that touches the disk
- `config`    the keys; `storage_keys` those of Confluent's sinks; `path_format` folders by time
"""

from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.sink import FileSink

__all__ = ["FileSink", "FileSinkConfig"]
