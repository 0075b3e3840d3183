"""`connectors/key_tables.py`, which is a script and in no package."""

import importlib.util
import sys
from types import ModuleType

from support.checkout import ROOT

SCRIPT = ROOT / "connectors" / "key_tables.py"


def load_key_tables() -> ModuleType:
    """Return the script as a module."""
    spec = importlib.util.spec_from_file_location("key_tables", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["key_tables"] = module
    spec.loader.exec_module(module)
    return module
