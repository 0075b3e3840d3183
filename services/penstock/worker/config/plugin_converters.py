"""Converters of plugins, for connectors whose rows are bytes of messages.

The connector's own plugin calls the converter: only it knows the messages. It gets the address and
the credential of the converter's process among its secrets (`penstock_values.converter_process`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.model.connector import Target
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, error_from_diagnostic
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.host import PluginHost
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.worker.config.reach import Reach
from penstock_converters.registry import is_known, unknown_keys
from penstock_values.converter_process import CONVERTER_KEYS, PROCESS, ConverterProcess

_VERSION: Final = "plugin.version"


@dataclass(frozen=True, slots=True)
class _NamedConverter:
    """A plugin's converter in the configuration of a connector's plugin: the key that names it, its
    own keys, and what of them is secret.
    """

    path: str
    name: str
    version: str
    config: dict[str, str] = field(repr=False)
    secrets: dict[str, str] = field(repr=False)


def refuse_process_keys(config: Mapping[str, str]) -> None:
    """Raise when a configuration says where the process of a converter is.

    Raises:
        ConfigError: `converter.reserved`.
    """
    for key in config:
        if key.endswith(f".converter.{PROCESS}"):
            raise ConfigError(
                "converter.reserved",
                f"`{key}` is reserved: only the worker sets it",
                fix=f"Remove it, and name the converter in `{key.removesuffix(f'.{PROCESS}')}`.",
                config_path=key,
            )


async def attach_converters(
    host: PluginHost, caller: PluginProcess, target: Target, reach: Reach, timeout_s: float
) -> Target:
    """Return the configuration of a plugin, `caller`, with the processes of the converters that it
    names.

    Raises:
        ConfigError: `converter.unreachable`: the caller runs on another machine.
        PenstockError: as `PluginHost.acquire`, `reach.plugin`; they name the converter's key.
    """
    for named in _find(host, target):
        process = await _acquire(host, named)
        if caller.is_remote and not process.is_remote:
            raise _unreachable(named, caller)
        called = _target(process, named, target.instance, reach)
        # both may print what they received, and what the converter says goes through the caller
        for one in (process, caller):
            one.connection.redact.add_secrets([*called.secrets.values(), process.credential])
        told = ConverterProcess(
            process.address,
            process.connector,
            target.instance,
            timeout_s,
            {**called.config, **called.secrets},
            process.credential,
            process.dial_info.get("tls"),
        )
        prefix = f"{named.path}."
        target = replace(
            target,
            config=_without(prefix, target.config),
            secrets={**_without(prefix, target.secrets), f"{prefix}{PROCESS}": told.to_json()},
        )
    return target


async def acquire_converters(host: PluginHost, targets: Iterable[Target]) -> list[PluginProcess]:
    """Return the processes of the converters that the configurations of plugins name.

    Raises:
        PenstockError: as `attach_converters`.
    """
    return [await _acquire(host, named) for target in targets for named in _find(host, target)]


async def validate_converters(host: PluginHost, target: Target, reach: Reach) -> list[Diagnostic]:
    """Return the diagnostics of plugins about the keys of their converters."""
    found: list[Diagnostic] = []
    for named in _find(host, target):
        process = await _acquire(host, named)
        validation = await process.validate(_target(process, named, target.instance, reach))
        reported = [d for value in validation.values for d in value.diagnostics]
        found += [
            replace(one, config_path=f"{named.path}.{one.config_path}")
            for one in (*reported, *validation.diagnostics)
        ]
    return found


def without_unknown_keys(keys: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of an end at the brokers without those that its converters do not have: Kafka
    Connect ignores them. A warning names them.
    """
    unknown: set[str] = set()
    for path in (*CONVERTER_KEYS, "header.converter"):
        own = _own(f"{path}.", keys)
        unknown |= {f"{path}.{key}" for key in unknown_keys(keys.get(path, "").strip(), own)}
    return {key: value for key, value in keys.items() if key not in unknown}


def _find(host: PluginHost, target: Target) -> Iterator[_NamedConverter]:
    for path in CONVERTER_KEYS:
        name = target.config.get(path, "").strip()
        if not name or is_known(name):
            continue
        config, secrets = (_own(f"{path}.", keys) for keys in (target.config, target.secrets))
        named = _NamedConverter(path, name, config.pop(_VERSION, "").strip(), config, secrets)
        if _is_converter(host, named):
            yield named


def _is_converter(host: PluginHost, named: _NamedConverter) -> bool:
    try:
        return host.find(named.name, named.version)[1].kind is Kind.CONVERTER
    except ConfigError as error:
        if error.code == "plugin.not_installed":
            return False  # the connector's plugin says that it knows no such converter
        raise _renamed(error, named) from error


async def _acquire(host: PluginHost, named: _NamedConverter) -> PluginProcess:
    try:
        return await host.acquire(named.name, named.version)
    except ConfigError as error:
        raise _renamed(error, named) from error


def _target(process: PluginProcess, named: _NamedConverter, instance: str, reach: Reach) -> Target:
    target = Target(process.connector, instance, named.config, named.secrets)
    try:
        return reach.with_reach_keys(process.spec, target)
    except ConfigError as error:
        raise _renamed(error, named) from None


def _unreachable(named: _NamedConverter, caller: PluginProcess) -> ConfigError:
    return ConfigError(
        "converter.unreachable",
        f"`{named.path}` names `{named.name[:200]}`, which runs beside this worker, and "
        f"{caller.name}, which calls it, runs elsewhere",
        fix="Install the converter as a plugin elsewhere, too (`address` in its plugin.toml), or "
        f"{caller.plugin} beside the worker.",
        config_path=named.path,
    )


def _renamed(error: ConfigError, named: _NamedConverter) -> PenstockError:
    """Return the error about the key that selects the plugin, by its name here."""
    found = error.diagnostic
    is_version = found.config_path == "connector.plugin.version"
    path = f"{named.path}.{_VERSION}" if is_version else named.path
    return error_from_diagnostic(replace(found, config_path=path))


def _own(prefix: str, keys: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(prefix): keys[key] for key in keys if key.startswith(prefix)}


def _without(prefix: str, keys: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in keys.items() if not key.startswith(prefix)}
