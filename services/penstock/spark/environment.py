"""The variables that the JVM and its Python workers have: those that say how programs run here.

A worker's own variables hold secrets: keys of this product (`PENSTOCK_…`), and what `${env:…}` is
allowed to name. Rows and functions of everybody pass through the engine, and none of them has
business with those: what is not named here stays in the worker. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.model import faults

_NAMES: Final = frozenset(
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH LD_PRELOAD VIRTUAL_ENV "
    "SSL_CERT_FILE SSL_CERT_DIR KRB5_CONFIG KRB5CCNAME "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "
    f"{faults.VARIABLE}".split()
)

_BEGINNINGS: Final = (
    *("JAVA_", "JDK_", "_JAVA_", "SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "KUBERNETES_"),
    *("LC_", "PYTHON", "MALLOC_", "GRPC_", "ARROW_", "OMP_"),
    "AWS_",  # who this machine is to the object store that has the topics: executors read them
)


def of_engine(environment: Mapping[str, str]) -> dict[str, str]:
    """Return those of a worker's variables that its engine has, too."""
    return {name: value for name, value in environment.items() if _is_given(name)}


def _is_given(name: str) -> bool:
    # proxies are written in small letters, too
    return name.upper() in _NAMES or name.startswith(_BEGINNINGS)
