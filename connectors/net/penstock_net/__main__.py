"""The plugin process: serves the connectors of the web."""

from importlib.metadata import version

from penstock_connector import serve
from penstock_net import CONNECTORS

if __name__ == "__main__":
    serve(*CONNECTORS, name="net", version=version("penstock"))
