"""The plugin process: serves the connectors of databases."""

from importlib.metadata import version

from penstock_connector import serve
from penstock_databases import CONNECTORS

if __name__ == "__main__":
    serve(*CONNECTORS, name="databases", version=version("penstock"))
