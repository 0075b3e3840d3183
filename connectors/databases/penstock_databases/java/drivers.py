"""Where drivers are, and the JVM that they run in: one for the process, from the first need on.

Only who installs a node puts drivers there, as with plugins; a configuration can name none.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from penstock_connector import ConfigError

FOLDERS: Final = (
    Path(__file__).parent.parent / "drivers",
    Path("/usr/local/share/penstock/drivers"),
)
"""Where drivers are looked for: beside `plugin.toml`, and where an upgrade does not come."""

_MEMORY: Final = "-Xmx512m"
"""Of the JVM. Rows stream; a driver that reads a whole result into memory ends in an error."""

_OPTIONS: Final = (
    _MEMORY,
    "-Xrs",  # signals are the plugin's
    "-Duser.timezone=UTC",  # times without a zone come as they are
    "-Djava.awt.headless=true",
)
_lock = threading.Lock()
_folders: list[Path] = [*FOLDERS]


def look_in(folders: Sequence[str]) -> None:
    """Look for drivers in these folders, too. Counts until the JVM runs."""
    _folders.extend(map(Path, folders))


def java() -> Any:
    """Return the bridge to the JVM (the module `jpype`); starts it.

    Raises:
        ConfigError: `jdbc.no_bridge`, `jdbc.no_driver`, `jdbc.no_jvm`.
    """
    with _lock:
        bridge = _bridge()
        if not bridge.isJVMStarted():
            _start(bridge, _jars())
        return bridge


def no_driver(what: str) -> ConfigError:
    """Return the error of a URL that no driver takes."""
    return ConfigError(
        "jdbc.no_driver",
        f"no driver here takes {what}",
        fix=f"Put the driver's jar into {_folders[-1]}, and restart the worker.",
        config_path="connection.url",
    )


def _jars() -> list[str]:
    found = [str(jar) for folder in _folders for jar in sorted(folder.glob("*.jar"))]
    if not found:
        raise no_driver("the URL: there are no drivers at all")
    return found


def _bridge() -> Any:
    try:
        return importlib.import_module("jpype")
    except ImportError as error:
        raise ConfigError(
            "jdbc.no_bridge",
            "databases with a Java driver need the package JPype1",
            fix="pip install 'penstock[jdbc]'",
            config_path="connection.url",
        ) from error


def _start(bridge: Any, jars: list[str]) -> None:
    try:
        bridge.startJVM(*_OPTIONS, classpath=jars, convertStrings=True)
    except (OSError, RuntimeError, bridge.JVMNotFoundException) as error:
        raise ConfigError(
            "jdbc.no_jvm",
            f"no JVM could be started: {error}",
            fix="Install a JDK 17 or 21 below /usr/lib/jvm, or its `java` in /usr/local/bin.",
        ) from error
