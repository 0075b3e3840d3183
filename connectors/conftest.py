# noqa: INP001 - like tests/conftest.py
"""Settings of every test of a connector: long files begin first."""

import support.hypothesis_profile  # noqa: F401 - loaded by its import
from support.order import (  # noqa: F401 - hooks, found by their names
    pytest_collection_modifyitems,
    pytest_xdist_make_scheduler,
)
