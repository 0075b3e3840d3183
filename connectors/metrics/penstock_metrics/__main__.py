"""The plugin process: serves the connectors of metrics."""

from importlib.metadata import version

from penstock_connector import serve
from penstock_metrics import CONNECTORS

if __name__ == "__main__":
    serve(*CONNECTORS, name="metrics", version=version("penstock"))
