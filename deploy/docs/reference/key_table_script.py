"""What `connectors/key_tables.py`, a script, knows of the connectors that ship."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

_SCRIPT: Final = Path(__file__).parents[3] / "connectors" / "key_tables.py"
_NAME: Final = "key_tables"


def load_script() -> ModuleType:
    """Return the script as a module."""
    if _NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(_NAME, _SCRIPT)
        if spec is None or spec.loader is None:
            raise ImportError(_SCRIPT)
        module = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[_NAME]


def key_table(name: str) -> str:
    """Return the table of keys of a connector or a kind of converter, as its README has it."""
    script = load_script()
    lines: list[str] = script.key_table(script.SPECS[name]).splitlines()
    return "\n".join(line for line in lines if not line.startswith("<!--"))
