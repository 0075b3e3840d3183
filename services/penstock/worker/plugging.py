"""Transforms of plugins in a chain: which there are, whether they are well configured, and where
their processes are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from penstock.model.connector import Target
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.remote import Remote
from penstock.plugin import Kind, PluginHost, PluginProcess
from penstock.transform import Chain
from penstock.worker.routing import Routed
from penstock.worker.settings import ConnectorSettings


def served_by(host: PluginHost) -> Callable[[str], bool]:
    """Return what tells whether a plugin serves a transform of this name."""

    def served(name: str) -> bool:
        try:
            _, entry = host.find(name)
        except ConfigError as error:
            if error.code != "plugin.not_installed":
                raise
            return False
        return entry.kind is Kind.TRANSFORM

    return served


async def refused_by(host: PluginHost, chain: Chain, instance: str) -> list[Diagnostic]:
    """Return what plugins find in the configurations of their transforms."""
    found: list[Diagnostic] = []
    for remote in chain.remotes:
        process = await host.acquire(remote.connector)
        validation = await process.validate(_target(process, remote, instance))
        told = [d for value in validation.values for d in value.diagnostics]
        found += [
            replace(diagnostic, config_path=f"{remote.path}.{diagnostic.config_path}")
            for diagnostic in (*told, *validation.diagnostics)
        ]
    return found


async def plug(
    host: PluginHost, chain: Chain, instance: str, settings: ConnectorSettings
) -> tuple[Routed, AbstractContextManager[None]]:
    """Return the chain with the places of its plugins, and what keeps their processes for a run:
    executors call them, which their host does not see.
    """
    processes = {remote.path: await host.acquire(remote.connector) for remote in chain.remotes}

    def place(remote: Remote) -> Remote:
        """Tell where its process is."""
        process = processes[remote.path]
        return replace(
            remote,
            connector=process.connector,
            instance=instance,
            address=process.address,
            credential=process.credential,
            tls=json.dumps(process.dial["tls"], sort_keys=True) if "tls" in process.dial else "",
            stall=settings.stall,
        )

    routed = Routed(chain.placed(place), settings.topic)
    return routed, _held(list(processes.values()))


@contextmanager
def _held(processes: Sequence[PluginProcess]) -> Iterator[None]:
    for process in processes:
        process.link.idleness.begin()
    try:
        yield
    finally:
        for process in processes:
            process.link.idleness.end()


def _target(process: PluginProcess, remote: Remote, instance: str) -> Target:
    return Target(process.connector, instance, dict(remote.config))
