# noqa: INP001 - like tests/conftest.py
"""Settings of every test of a connector: long files begin first."""

from support.order import pytest_collection_modifyitems  # noqa: F401 - a hook, found by its name
