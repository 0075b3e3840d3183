"""The layers hold, and the tool that says so is able to say no."""

import pytest

from support.checkout import copy_of_checkout, run

FORBIDDEN = {
    "services/penstock/model/errors.py": "import penstock.rpc",
    "services/penstock/topic/__init__.py": "import penstock.spark",
    "services/penstock/worker/ports.py": "import pyspark",
    "services/penstock/rpc/channels.py": "import penstock_kit.testing",
    "connectors/python/penstock_connector/_values.py": "import penstock.model",
    "connectors/python/penstock_values/identity.py": "import penstock.api",
    "services/penstock/model/pattern.py": "import penstock_connector",
    "connectors/builtin/penstock_builtin/__init__.py": "import penstock.api.offset.v1",
    "connectors/databases/penstock_databases/__init__.py": "import penstock_builtin",
    "connectors/net/penstock_net/__init__.py": "import penstock_databases",
}


def lint(folder):
    plugins = ("kit", "python", "builtin", "databases", "net")
    rooms = ("services", *(f"connectors/{name}" for name in plugins))
    python_path = ":".join(str(folder / room) for room in rooms)
    return run("lint-imports", "--no-cache", cwd=folder, PYTHONPATH=python_path)


def test_the_layers_hold(tmp_path):
    done = lint(copy_of_checkout(tmp_path))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", FORBIDDEN)
def test_a_forbidden_import_goes_red(tmp_path, file):
    place = copy_of_checkout(tmp_path) / file
    place.write_text(f"{place.read_text()}\n{FORBIDDEN[file]}\n")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout
    assert "BROKEN" in done.stdout
    assert FORBIDDEN[file].split()[1] in done.stdout
