"""The plugin process: serves the connectors of RocketMQ."""

from importlib.metadata import version

from penstock_connector import serve
from penstock_rocketmq import CONNECTORS

if __name__ == "__main__":
    serve(*CONNECTORS, name="rocketmq", version=version("penstock"))
