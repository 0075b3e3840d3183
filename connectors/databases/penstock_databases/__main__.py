"""The plugin process: serves the connectors of databases."""

import argparse
import sys
from importlib.metadata import version

from penstock_connector import serve
from penstock_databases import CONNECTORS
from penstock_databases.java import drivers

if __name__ == "__main__":
    ours = argparse.ArgumentParser(add_help=False)
    ours.add_argument("--drivers", action="append", default=[])
    options, sys.argv[1:] = ours.parse_known_args()
    drivers.look_in(options.drivers)
    serve(*CONNECTORS, name="databases", version=version("penstock"))
