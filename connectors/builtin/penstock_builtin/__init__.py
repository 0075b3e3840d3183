"""The connectors that ship, in one plugin: `python -m penstock_builtin`.

- `file_source`   rows of files: text, CSV, JSON lines; tails, follows rotation, finds new files
- `file_sink`     files of rows: text, CSV, JSON lines, Parquet; exactly once
- `delta_sink`    rows in a Delta table; exactly once
- `generator`     made-up rows
- `verifiable`    a source and a sink that make loss, repetition and disorder visible
- `opening`, `pacing`, `parquet`, `rowcolumns`, `onevalue`   what several of them need

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_builtin.delta_sink import DeltaSink
from penstock_builtin.file_sink import FileSink
from penstock_builtin.file_source import FileSource
from penstock_builtin.generator import Generator
from penstock_builtin.verifiable import VerifiableSink, VerifiableSource

__all__ = [
    "CONNECTORS",
    "DeltaSink",
    "FileSink",
    "FileSource",
    "Generator",
    "VerifiableSink",
    "VerifiableSource",
]

CONNECTORS = (FileSource, FileSink, DeltaSink, Generator, VerifiableSource, VerifiableSink)
"""What the plugin serves."""
