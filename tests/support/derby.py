"""Derby, a database that there is only a Java driver for: the jars that come with Spark."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pyspark

from penstock_databases.java.drivers import java


def derby_jars(folder: Path) -> Path:
    """Put the driver into a folder; returns it."""
    for jar in (Path(pyspark.__file__).parent / "jars").glob("derby*.jar"):
        shutil.copy(jar, folder)
    return folder


def make_derby(folder: Path) -> str:
    """Make a database; returns its URL. Its log goes nowhere: else it is in the working folder."""
    bridge = java()
    bridge.JClass("java.lang.System").setProperty("derby.stream.error.file", "/dev/null")
    url = f"jdbc:derby:{folder}"
    bridge.JClass("java.sql.DriverManager").getConnection(f"{url};create=true").close()
    return url


def close_derby(url: str) -> None:
    """Let go of a database, for another process: Derby answers with an exception, always."""
    bridge = java()
    with contextlib.suppress(bridge.JException):
        bridge.JClass("java.sql.DriverManager").getConnection(f"{url};shutdown=true")
