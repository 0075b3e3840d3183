"""The plugin process: serves the connectors of Kafka."""

from importlib.metadata import version

from penstock_connector import serve
from penstock_kafka import CONNECTORS

if __name__ == "__main__":
    serve(*CONNECTORS, name="kafka", version=version("penstock"))
