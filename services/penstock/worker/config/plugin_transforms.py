"""The names of a dataset: before the chain sees it, where rows that name none go by the connector's
topic; and of the topic that its rows are of, which people want to know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from penstock.model.connector import Target
from penstock.model.errors import ConfigError, Diagnostic, error_of
from penstock.model.step import Remote
from penstock.plugin import Kind, PluginHost, PluginProcess
from penstock.spark.schema import normal_schema
from penstock.transform import Chain, Compiled, Outside, build_chain
from penstock.worker.config.resolved_config import Design


@dataclass(frozen=True, slots=True)
class Routed:
    """A chain whose nameless datasets are called `default`. `tell` is told the datasets that rows
    are of, before and after the chain.
    """

    chain: Chain
    default: str
    tell: Callable[[str, str], None]

    @property
    def transforms(self) -> Sequence[str]:
        """Names of its transforms, in order."""
        return self.chain.names

    def until(self, transform: str) -> Routed:
        """Return the chain up to a transform, and with it."""
        return replace(self, chain=self.chain.until(transform))

    def moved(self, before: str, after: str) -> None:
        """Tell that rows of a dataset moved."""
        self.tell(before or self.default, after)

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset, with the types that the engine brings its rows to.

        Raises:
            ConfigError: it cannot be fitted.
            SchemaError: `engine.unsupported_type`.
        """
        return self.chain.compile(dataset or self.default, normal_schema(schema))


def chain_of(host: PluginHost, design: Design, functions: Sequence[Path]) -> Chain:
    """Return the chain of a connector; `functions` are the folders with Python functions.

    Raises:
        ConfigError: it is not valid.
    """
    kind = kinds_of(host)
    outside = Outside(functions, lambda name: kind(name) is Kind.TRANSFORM)
    return build_chain(design.parts.chain, outside)


def kinds_of(host: PluginHost) -> Callable[[str], Kind | None]:
    """Return what tells what a plugin has under a name; None for nothing."""

    def kind(name: str) -> Kind | None:
        try:
            _, entry = host.find(name)
        except ConfigError as error:
            if error.code != "plugin.not_installed":
                raise
            return None
        return entry.kind

    return kind


async def refused_by(host: PluginHost, chain: Chain, design: Design) -> list[Diagnostic]:
    """Return what plugins find in the configurations of their transforms."""
    found: list[Diagnostic] = []
    for remote in chain.remotes:
        process = await _acquired(host, remote)
        validation = await process.validate(_target(process, remote, design))
        told = [d for value in validation.values for d in value.diagnostics]
        found += [
            replace(diagnostic, config_path=f"{remote.path}.{diagnostic.config_path}")
            for diagnostic in (*told, *validation.diagnostics)
        ]
    return found


async def plug(
    host: PluginHost,
    chain: Chain,
    design: Design,
    tell: Callable[[str, str], None],
) -> tuple[Routed, AbstractContextManager[None]]:
    """Return the chain with the places of its plugins, and what keeps their processes for a run:
    executors call them, which their host does not see. `tell`: see Routed.
    """
    processes = {remote.path: await _acquired(host, remote) for remote in chain.remotes}

    def place(remote: Remote) -> Remote:
        """Tell where its process is."""
        process = processes[remote.path]
        target = _target(process, remote, design)
        # executors send its configuration, and it may print what it got
        process.link.redact.learn(target.secrets.values())
        return replace(
            remote,
            config=tuple({**dict(remote.config), **target.config}.items()),
            connector=process.connector,
            instance=design.connector.name,
            address=process.address,
            credential=process.credential,
            tls=json.dumps(process.dial["tls"], sort_keys=True) if "tls" in process.dial else "",
            stall=design.settings.stall,
        )

    routed = Routed(chain.placed(place), design.settings.topic, tell)
    return routed, _held(list(processes.values()))


async def _acquired(host: PluginHost, remote: Remote) -> PluginProcess:
    try:
        return await host.acquire(remote.connector, remote.version)
    except ConfigError as error:
        found = error.diagnostic
        key = {"connector.class": "type", "connector.plugin.version": "plugin.version"}.get(
            found.config_path
        )
        if key is None:
            raise
        raise error_of(replace(found, config_path=f"{remote.path}.{key}")) from error


@contextmanager
def _held(processes: Sequence[PluginProcess]) -> Iterator[None]:
    for process in processes:
        process.link.idleness.begin()
    try:
        yield
    finally:
        for process in processes:
            process.link.idleness.end()


def _target(process: PluginProcess, remote: Remote, design: Design) -> Target:
    config = dict(remote.config)
    secrets = design.secrets_of(config, remote.path)
    plain = {key: value for key, value in config.items() if key not in secrets}
    target = Target(process.connector, design.connector.name, plain, secrets)
    try:
        return design.reach.told(process.spec, target)
    except ConfigError as error:
        raise error_of(replace(error.diagnostic, config_path=f"{remote.path}.type")) from None
