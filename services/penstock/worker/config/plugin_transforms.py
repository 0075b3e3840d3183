"""The transform chain of a connector, with the transforms that plugins provide."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from penstock.model.connector import ConnectorKind, Target
from penstock.model.errors import ConfigError, Diagnostic, error_from_diagnostic
from penstock.model.step import RemoteTransform
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.host import PluginHost
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.spark.schema import normalize_schema
from penstock.transform.chain import Chain, CompiledChain
from penstock.transform.configuration import Extensions, build_chain
from penstock.transform.defaults import copy_defaults
from penstock.worker.config.broker_topics import POSITIONS
from penstock.worker.config.plugin_converters import acquire_converters
from penstock.worker.config.resolved_config import ResolvedConfig


@dataclass(frozen=True, slots=True)
class TaskChain:
    """The chain of a running connector. Rows of a source that name no dataset belong to
    `default_dataset`. `report` is called with the dataset of moved rows before and after the chain.
    """

    chain: Chain
    default_dataset: str
    report: Callable[[str, str], None]

    @property
    def transforms(self) -> Sequence[str]:
        """Names of its transforms, in order."""
        return self.chain.names

    def until(self, transform: str) -> TaskChain:
        """Return the chain up to and including a transform."""
        return replace(self, chain=self.chain.until(transform))

    def report_dataset(self, before: str, after: str) -> None:
        """Report that rows of a dataset moved."""
        self.report(before or self.default_dataset, after)

    def compile(self, dataset: str, schema: pa.Schema) -> CompiledChain:
        """Compile the chain for a dataset, with the types that the engine uses and the
        defaults of the source's schema.

        Raises:
            ConfigError: the chain does not fit the schema.
            SchemaError: `engine.unsupported_type`.
        """
        columns = copy_defaults(normalize_schema(schema), schema)
        return self.chain.compile(dataset or self.default_dataset, columns)


def build_connector_chain(
    host: PluginHost, resolved: ResolvedConfig, functions: Sequence[Path]
) -> Chain:
    """Return the chain of a connector. `functions` are folders with Python functions.

    Raises:
        ConfigError: the chain is not valid.
    """
    kind = plugin_kinds(host)
    outside = Extensions(functions, lambda name: kind(name) is Kind.TRANSFORM)
    chain = build_chain(resolved.sections.chain, outside)
    if not resolved.writes_plugin:  # rows of a topic are new ones in the next
        return replace(chain, keeps_partition=resolved.kind is ConnectorKind.SOURCE)
    keeps = resolved.sections.sink.get(POSITIONS, "").lower() == "true"
    return replace(chain, keeps_positions=keeps)


def plugin_kinds(host: PluginHost) -> Callable[[str], Kind | None]:
    """Return a function that looks up the kind of an installed plugin; None for an unknown name."""

    def kind(name: str) -> Kind | None:
        try:
            _, entry = host.find(name)
        except ConfigError as error:
            if error.code != "plugin.not_installed":
                raise
            return None
        return entry.kind

    return kind


async def validate_plugin_transforms(
    host: PluginHost, chain: Chain, resolved: ResolvedConfig
) -> list[Diagnostic]:
    """Return the diagnostics of plugins about the configurations of their transforms."""
    found: list[Diagnostic] = []
    for remote in chain.plugin_transforms:
        process = await _acquire(host, remote)
        validation = await process.validate(_target(process, remote, resolved))
        reported = [d for value in validation.values for d in value.diagnostics]
        found += [
            replace(diagnostic, config_path=f"{remote.path}.{diagnostic.config_path}")
            for diagnostic in (*reported, *validation.diagnostics)
        ]
    return found


async def attach_plugins(
    host: PluginHost,
    chain: Chain,
    resolved: ResolvedConfig,
    report: Callable[[str, str], None],
) -> tuple[TaskChain, AbstractContextManager[None]]:
    """Return the chain with the addresses of its plugin processes, and a context that keeps these
    and those of converters alive for a run: executors and plugins call them, which the plugin host
    does not see. `report`: see `TaskChain`.
    """
    processes = {remote.path: await _acquire(host, remote) for remote in chain.plugin_transforms}
    converters = await acquire_converters(host, map(resolved.target, resolved.roles))

    def place(remote: RemoteTransform) -> RemoteTransform:
        """Add the address of its process."""
        process = processes[remote.path]
        target = _target(process, remote, resolved)
        # executors send it the configuration, and it may print what it received
        process.connection.redact.add_secrets(target.secrets.values())
        return replace(
            remote,
            config=tuple({**dict(remote.config), **target.config}.items()),
            connector=process.connector,
            instance=resolved.connector.name,
            address=process.address,
            credential=process.credential,
            tls=json.dumps(process.dial_info["tls"], sort_keys=True)
            if "tls" in process.dial_info
            else "",
            stall_timeout_s=resolved.settings.stall_timeout_s,
        )

    task_chain = TaskChain(chain.with_connections(place), resolved.settings.topic, report)
    return task_chain, _keep_processes([*processes.values(), *converters])


async def _acquire(host: PluginHost, remote: RemoteTransform) -> PluginProcess:
    try:
        return await host.acquire(remote.connector, remote.version)
    except ConfigError as error:
        found = error.diagnostic
        key = {"connector.class": "type", "connector.plugin.version": "plugin.version"}.get(
            found.config_path
        )
        if key is None:
            raise
        raise error_from_diagnostic(replace(found, config_path=f"{remote.path}.{key}")) from error


@contextmanager
def _keep_processes(processes: Sequence[PluginProcess]) -> Iterator[None]:
    for process in processes:
        process.connection.idle_timer.begin_use()
    try:
        yield
    finally:
        for process in processes:
            process.connection.idle_timer.end_use()


def _target(process: PluginProcess, remote: RemoteTransform, resolved: ResolvedConfig) -> Target:
    config = dict(remote.config)
    secrets = resolved.select_secrets(config, remote.path)
    plain = {key: value for key, value in config.items() if key not in secrets}
    target = Target(process.connector, resolved.connector.name, plain, secrets)
    try:
        return resolved.reach.with_reach_keys(process.spec, target)
    except ConfigError as error:
        raise error_from_diagnostic(
            replace(error.diagnostic, config_path=f"{remote.path}.type")
        ) from None
