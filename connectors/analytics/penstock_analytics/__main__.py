"""The plugin process: serves the sinks of analytical databases."""

from importlib.metadata import version

from penstock_analytics import CONNECTORS
from penstock_connector import serve

if __name__ == "__main__":
    serve(*CONNECTORS, name="analytics", version=version("penstock"))
