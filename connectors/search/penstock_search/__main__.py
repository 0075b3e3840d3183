"""The plugin process: serves the connectors of servers for searching."""

from importlib.metadata import version

from penstock_connector import serve
from penstock_search import CONNECTORS

if __name__ == "__main__":
    serve(*CONNECTORS, name="search", version=version("penstock"))
