"""The public surface."""

import inspect

import penstock_connector
from penstock_connector import testing


def test_all_is_exactly_the_public_names():
    for module in (penstock_connector, testing):
        assert sorted(module.__all__) == module.__all__
    public = {
        name
        for name, value in vars(penstock_connector).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(penstock_connector.__all__)
