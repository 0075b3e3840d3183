"""The plugin process: serves the connectors of messaging systems."""

from importlib.metadata import version

from penstock_connector import serve
from penstock_messaging import CONNECTORS

if __name__ == "__main__":
    serve(*CONNECTORS, name="messaging", version=version("penstock"))
