"""The process of a plugin, from `serve` to its exit."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from penstock.api.connector.v1 import plugin_service_pb2 as pb
from penstock_connector._connector import Connector
from penstock_connector._connectors import kind_of
from penstock_connector._errors import ConnectorError
from penstock_connector._handshake import COOKIE, NONCE, Launch, launch_from
from penstock_connector._hiding import erase_variable, hide_memory
from penstock_connector._listen import Listen, add_options, listen_of
from penstock_connector._logs import log_to_stderr
from penstock_connector._server import PluginServer

_GRACE: Final = 10.0
"""Seconds that tasks get to end when the host is gone. Longer keeps an orphan alive; shorter cuts a
commit that was about to be made."""

_EXIT_WITHIN: Final = 5.0
"""Seconds from the end of the server to the end of the process. A thread of an author that hangs
would keep it for ever."""

_log = logging.getLogger(__name__)


def serve(*connectors: type[Connector[Any]], name: str = "", version: str = "0.0.0") -> None:
    """Serve connectors until the host ends: the `main()` of a plugin.

    A host starts the process and finds it by its handshake. By hand, `--listen HOST:PORT` serves
    without a host and without a credential, for grpcurl, debuggers and hosts elsewhere; they are
    told by `--tls-certificate`, `--tls-key` and `--tls-client-ca`.

    Args:
        *connectors: The classes to serve.
        name: Name of the plugin; the name of the main module when empty.
        version: Version of the plugin.
    """
    name = name or _main_name()
    try:
        listen = _arguments(name)
        launch = None if listen else launch_from(os.environ)
        if not listen and launch is None:
            sys.exit(_how_to_run(name, connectors))
        if launch is not None:
            erase_variable(NONCE)
            hide_memory()
        log_to_stderr()
        asyncio.run(_run(connectors, name, version, launch, listen))
    except ConnectorError as error:
        sys.exit(f"{name}: {error}")
    sys.stdout.flush()
    ender = threading.Timer(_EXIT_WITHIN, os._exit, (0,))
    ender.daemon = True
    ender.start()


def _arguments(name: str) -> Listen | None:
    parser = argparse.ArgumentParser(prog=name, description="A Penstock plugin.")
    add_options(parser)
    return listen_of(parser.parse_args())


def _main_name() -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return Path(getattr(main, "__file__", None) or sys.argv[0]).stem


def _how_to_run(name: str, connectors: Sequence[type[Connector[Any]]]) -> str:
    words = {c: pb.Kind.Name(kind_of(c)).removeprefix("KIND_").lower() for c in connectors}
    kinds = [f"{c.name} ({word})" for c, word in words.items()]
    command = " ".join(sys.orig_argv)
    return (
        f"{name} is a Penstock plugin with {', '.join(kinds) or 'no connectors'}.\n"
        f"A host starts it: install its manifest and name the connector in a configuration.\n"
        f"To try it by hand:  {command} --listen 127.0.0.1:9000\n"
        f"({COOKIE} is not set, so no host started this process.)"
    )


async def _run(
    connectors: Sequence[type[Connector[Any]]],
    name: str,
    version: str,
    launch: Launch | None,
    listen: Listen | None,
) -> None:
    server = PluginServer(
        connectors, name=name, version=version, credential=launch.credential if launch else None
    )
    address = listen.address if listen else f"unix:{launch.socket if launch else ''}"
    port = await server.start(address, listen.credentials() if listen else None)
    # What is loaded by now stays for the life of the process: the collector need not look at it.
    gc.collect()
    gc.freeze()
    _end_on_signals(server, hosted=launch is not None)
    if launch is not None:
        _end_with_host(server)
        launch.announce()
    else:
        print(f"{name} listens on {address.rpartition(':')[0]}:{port}", flush=True)
    await server.ending.wait()
    await server.drain(_GRACE)
    await server.stop()


def _end_on_signals(server: PluginServer, *, hosted: bool) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, server.ending.set)
    # Ctrl-C reaches the whole process group: with a host it is the host's to end its plugins.
    loop.add_signal_handler(signal.SIGINT, (lambda: None) if hosted else server.ending.set)


def _end_with_host(server: PluginServer) -> None:
    """The host holds the other end of stdin: its end of file means that the host is gone."""
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        _log.info("the host closed stdin: ending")
        loop.call_soon_threadsafe(server.ending.set)

    threading.Thread(target=watch, name="stdin", daemon=True).start()
