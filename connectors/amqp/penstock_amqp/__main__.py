"""The plugin process: serves the connectors of ActiveMQ."""

from importlib.metadata import version

from penstock_amqp import CONNECTORS
from penstock_connector import serve

if __name__ == "__main__":
    serve(*CONNECTORS, name="amqp", version=version("penstock"))
