# noqa: INP001 - like tests/conftest.py
"""Settings of every test of a connector: long files begin first."""

from support.order import (  # noqa: F401 - hooks, found by their names
    pytest_collection_modifyitems,
    pytest_xdist_make_scheduler,
)
