"""Serves the connectors that ship."""

from importlib.metadata import version

from penstock_builtin.delta_sink import DeltaSink
from penstock_builtin.file_sink import FileSink
from penstock_builtin.file_source import FileSource
from penstock_builtin.generator import Generator
from penstock_builtin.verifiable_sink import VerifiableSink
from penstock_builtin.verifiable_source import VerifiableSource
from penstock_connector import serve

if __name__ == "__main__":
    serve(
        FileSource,
        FileSink,
        DeltaSink,
        Generator,
        VerifiableSource,
        VerifiableSink,
        name="builtin",
        version=version("penstock"),
    )
