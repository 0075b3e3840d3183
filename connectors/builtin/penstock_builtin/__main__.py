"""The plugin process: serves the connectors that ship."""

from importlib.metadata import version

from penstock_builtin import CONNECTORS
from penstock_connector import serve

if __name__ == "__main__":
    serve(*CONNECTORS, name="builtin", version=version("penstock"))
