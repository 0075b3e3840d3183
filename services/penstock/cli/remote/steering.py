"""Another configuration and a state for a connector, in the order in which nothing runs that should
not: what is to pause or stop does so before it is changed, what is to run is changed before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.cli.remote.asking import Server, path
from penstock.pipeline_files.connector_file import STEERED

_RUNS: Final = "RUNNING"


def steer(server: Server, name: str, state: str) -> None:
    """Have a connector get into a state."""
    server.send("PUT", path("connectors", name, STEERED[state]))


def reconfigure(
    server: Server, name: str, config: Mapping[str, str], state: str = "", revision: int = 0
) -> Any:
    """Give a connector another configuration, and a state if one is said; one that is not there
    yet is made. Returns it as the gateway tells it.

    Args:
        server: the gateway.
        name: the connector's.
        config: all its keys.
        state: the one that it should be in; empty for the one that it is in.
        revision: the one that the change was made from; 0 for any.
    """
    if state in {"", _RUNS}:
        stored = _put(server, name, config, revision)
        if state:
            steer(server, name, state)
        return stored
    whole = path("v1", "connectors", name)
    before = server.get(whole)
    if revision in {0, before["revision"]}:  # else the cluster refuses, before anything is done
        steer(server, name, state)
        after = server.get(whole)
        # being steered gives it a new revision, and another's change a new version besides
        same = after["version"] == before["version"]
        revision = after["revision"] if same else before["revision"]
    return _put(server, name, config, revision)


def _put(server: Server, name: str, config: Mapping[str, str], revision: int) -> Any:
    where = path("connectors", name, "config")
    return server.send("PUT", where, dict(config), revision=revision)
