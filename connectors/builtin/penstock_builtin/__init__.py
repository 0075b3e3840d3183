"""The connectors that ship, in one plugin: `python -m penstock_builtin`.

- `file_source`   rows of files and objects: tails, follows rotation, finds new ones
- `sftp_source`   the same of an SFTP server
- `file_sink`     files and objects of rows; exactly once
- `places`        where files are: this machine, an object store
- `avro`          Avro files, for both
- `delta_sink`    rows in a Delta table; exactly once
- `log_sink`      rows in the log of the task
- `generator`     made-up rows
- `verifiable`    a source and a sink that make loss, repetition and disorder visible
- `opening`, `pacing`, `parquet`, `rowcolumns`, `onevalue`   what several of them need

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_builtin.delta_sink import DeltaSink
from penstock_builtin.file_sink import FileSink
from penstock_builtin.file_source import FileSource
from penstock_builtin.generator import Generator
from penstock_builtin.log_sink import LogSink
from penstock_builtin.sftp_source import SftpSource
from penstock_builtin.verifiable import VerifiableSink, VerifiableSource

__all__ = [
    "CONNECTORS",
    "DeltaSink",
    "FileSink",
    "FileSource",
    "Generator",
    "LogSink",
    "SftpSource",
    "VerifiableSink",
    "VerifiableSource",
]

CONNECTORS = (
    FileSource,
    SftpSource,
    FileSink,
    DeltaSink,
    LogSink,
    Generator,
    VerifiableSource,
    VerifiableSink,
)
"""What the plugin serves."""
