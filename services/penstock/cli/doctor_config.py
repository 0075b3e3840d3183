"""Checks of what a file of keys names, of a service or of `penstock standalone`.

Each check takes the parsed values of all keys: members of etcd, listeners, folders, plugins, rules
of `reach`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx

from penstock.cluster import keys as cluster
from penstock.cluster.keys import read_variables
from penstock.cluster.settings import read_etcd_settings
from penstock.etcd import Etcd, EtcdSettings
from penstock.gateway.http_server import require_certificate
from penstock.gateway.listeners import Listener, certificate_from_settings, listeners_from_settings
from penstock.model.config_def import ConfigKey, parse_with_errors
from penstock.model.errors import ConfigError, PenstockError, error_from_diagnostic
from penstock.pipeline_files.files import read_flat
from penstock.plugin.catalog.registry import Registry
from penstock.rpc.deadlines import deadline
from penstock.standalone import settings as standalone
from penstock.standalone.connect_keys import is_connect_key, with_own_names
from penstock.telemetry.redaction import Secret
from penstock.worker.config.reach import REACH, RESERVED, Reach, read_reach_rules
from penstock.worker.process_keys import is_open_key

MIN_FREE_BYTES: Final = 1 << 30
"""What should be free for state and scratch files: an embedded topic keeps rows for days."""

GATEWAY_TIMEOUT_S: Final = 5.0
ETCD_TIMEOUT_S: Final = 10.0
"""For all requests to one member."""

_UNKNOWN_PATH: Final = "/v1/doctor"
"""A path that no gateway has: one of ours answers with a code, before it requires a user."""

_ETCD_KEY: Final = "etcd.endpoints"

_ALL_KEYS: Final[dict[str, ConfigKey]] = {
    key.name: key
    for keys in (standalone.KEYS, *cluster.KEYS.values())
    for key in keys
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found.

    Attributes:
        subject: What was checked.
        ok: Whether it passed.
        found: What is there, in words.
        fix: What to do when it has not passed.
        needed: Whether nothing runs without it.
        code: Code of the error.
        key: The key, variable or option that names the subject.
    """

    subject: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True
    code: str = ""
    key: str = ""


def failed_check(subject: str, error: PenstockError, key: str = "") -> CheckResult:
    """Return the result of a check that raised; `key` where the error has no path."""
    diagnostic = error.diagnostic
    return CheckResult(
        subject,
        ok=False,
        found=diagnostic.message,
        fix=diagnostic.fix,
        code=diagnostic.code,
        key=diagnostic.config_path or key,
    )


def check_config(file: Path) -> tuple[list[CheckResult], Collection[str]]:
    """Check the keys of a file and of the environment; return the results and the keys.

    The keys of all services are known here: a file does not name its service.

    Raises:
        ConfigError: `config.file_…`.
    """
    config = {**with_own_names(read_flat(file)), **read_variables(_ALL_KEYS.values(), os.environ)}
    known = {
        key: value
        for key, value in config.items()
        if key in _ALL_KEYS or not (is_open_key(key) or is_connect_key(key))
    }
    is_service = not known.keys().isdisjoint(key.name for key in cluster.COMMON)
    # keys of the same name have other defaults in `penstock standalone`
    own_keys = {} if is_service else {key.name: key for key in standalone.KEYS}
    values, errors = parse_with_errors((_ALL_KEYS | own_keys).values(), known)
    results = [failed_check(f"key {error.diagnostic.config_path}", error) for error in errors]
    invalid = {error.diagnostic.config_path for error in errors}
    values = {key: _wrap_secret(key, value) for key, value in values.items()}
    for keys, check in _CHECKS:
        if not keys.isdisjoint(known) and keys.isdisjoint(invalid):
            results += check(values)
    if REACH not in invalid:
        results += _check_reach(values[REACH], config)
    return results, known.keys()


def _wrap_secret(key: str, value: Any) -> Any:
    is_secret = _ALL_KEYS[key].type == "password" and value
    return Secret(str(value)) if is_secret else value  # invariant 9


def check_folder(subject: str, path: Path, key: str) -> CheckResult:
    """Check whether a folder has space and is writable; or its nearest parent that exists."""
    folder = path.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        fix = f"Let this user write it, or name another folder in `{key}`."
        found, code = f"{folder} cannot be written", "doctor.not_writable"
        return CheckResult(subject, ok=False, found=found, fix=fix, code=code, key=key)
    found = f"{free >> 20} MiB free in {folder}"
    fix, code = f"Free some, or name another folder in `{key}`.", "doctor.little_room"
    return CheckResult(subject, free >= MIN_FREE_BYTES, found, fix, code=code, key=key)


def _check_folders(values: Mapping[str, Any]) -> Iterator[CheckResult]:
    if values["state.dir"]:
        yield check_folder("state", Path(values["state.dir"]), "state.dir")
    elif values["offset.storage.file.filename"]:
        file = Path(values["offset.storage.file.filename"])
        yield check_folder("state", file.parent, "offset.storage.file.filename")
    if values["topics.dir"] and "://" not in values["topics.dir"]:
        yield check_folder("topics", Path(values["topics.dir"]), "topics.dir")


def _check_plugins(values: Mapping[str, Any]) -> Iterator[CheckResult]:
    paths, only_sealed = map(Path, values["plugin.path"]), values["plugin.only.sealed"]
    registry = Registry.load(paths, builtin=False, only_sealed=only_sealed)
    for problem in registry.problems:
        yield failed_check("plugin", error_from_diagnostic(problem), "plugin.path")
    for manifest in registry.manifests:
        subject = f"plugin {manifest.name}"
        try:
            program = manifest.remote.address if manifest.remote else manifest.resolve_command()[0]
        except ConfigError as error:
            yield failed_check(subject, error)
            continue
        yield CheckResult(subject, ok=True, found=f"{manifest.version}, {program}")


def _check_etcd(values: Mapping[str, Any]) -> list[CheckResult]:
    """Check that each member can be reached, answers, and accepts the user."""
    try:
        settings = read_etcd_settings(values)
    except ConfigError as error:
        return [failed_check("etcd", error, _ETCD_KEY)]
    return asyncio.run(_check_members(settings))


async def _check_members(settings: EtcdSettings) -> list[CheckResult]:
    members = [replace(settings, endpoints=(one,)) for one in settings.endpoints]
    return list(await asyncio.gather(*map(_check_member, members)))


async def _check_member(settings: EtcdSettings) -> CheckResult:
    subject = f"etcd {settings.endpoints[0]}"
    try:
        async with deadline("doctor.etcd", ETCD_TIMEOUT_S):
            client = await Etcd.connect(
                replace(settings, connect_timeout_s=settings.retry_timeout_s)
            )
            try:
                # only a member with a leader answers this read, and every service may read the key
                await client.get(f"{client.prefix}cluster")
                found = f"version {await client.version()}, answers"
                return CheckResult(subject, ok=True, found=found)
            finally:
                await client.close()
    except PenstockError as error:
        return failed_check(subject, error, _ETCD_KEY)


def _check_listeners(values: Mapping[str, Any]) -> list[CheckResult]:
    """Check each address of a gateway, and the certificate of https listeners."""
    try:
        listeners = listeners_from_settings(values)
        if any(listener.tls for listener in listeners):
            require_certificate(certificate_from_settings(values)).create_context()
    except ConfigError as error:
        return [failed_check("listeners", error, "listeners")]
    return [_check_listener(listener) for listener in listeners]


def _check_listener(listener: Listener) -> CheckResult:
    """Check that an address is free, or that a gateway answers there already."""
    subject = f"listener {listener.url}"
    host, _, port = listener.address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host.strip("[]"), int(port)), family=family):
            return CheckResult(subject, ok=True, found="free")
    except OSError as error:
        reason = error.strerror or str(error)
    if _is_gateway(listener):
        return CheckResult(subject, ok=True, found="a gateway answers there")
    return CheckResult(
        subject,
        ok=False,
        found=f"cannot be bound: {reason}",
        fix=f"Stop the program that listens there, or set another address in `{listener.key}`.",
        code="rpc.address_in_use",
        key=listener.key,
    )


def _is_gateway(listener: Listener) -> bool:
    # a gateway that listens at all addresses listens here, too
    url = listener.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    try:
        # without verification: the request sends nothing, and the certificate is not its subject
        response = httpx.get(f"{url}{_UNKNOWN_PATH}", timeout=GATEWAY_TIMEOUT_S, verify=False)  # noqa: S501
        body = response.json()
    except (httpx.HTTPError, ValueError):
        return False
    return isinstance(body, dict) and str(body.get("code", "")).startswith("http.")


def _check_reach(names: Collection[str], config: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the rules of `reach`, and that the folders they name exist."""
    keys = {key: value for key, value in config.items() if key.startswith(RESERVED)}
    try:
        rules = read_reach_rules(list(names), keys).rules
    except ConfigError as error:
        yield failed_check(REACH, error, REACH)
        return
    if rules is None:
        return
    yield CheckResult(REACH, ok=True, found=", ".join(names))
    for _, rule in rules:
        yield from _missing_folders(rule)


def _missing_folders(rule: Reach) -> Iterator[CheckResult]:
    for folder in rule.folders or ():
        if "://" in folder or Path(folder).exists():  # a rule may name a file, too
            continue
        yield CheckResult(
            f"{REACH} {folder}",
            ok=False,
            found="does not exist",
            fix=f"Create it, or correct the folder in the rule {rule.rule!r}.",
            needed=False,
            code="doctor.no_folder",
            key=f"{RESERVED}{rule.rule}.folders",
        )


_CHECKS: Final[tuple[tuple[frozenset[str], Callable[[Mapping[str, Any]], Any]], ...]] = (
    (frozenset(name for name in _ALL_KEYS if name.startswith("etcd.")), _check_etcd),
    (
        frozenset(n for n in _ALL_KEYS if n.startswith(("listeners", "admin.", "listener."))),
        _check_listeners,
    ),
    (frozenset({"state.dir", "topics.dir", "offset.storage.file.filename"}), _check_folders),
    (frozenset({"plugin.path", "plugin.only.sealed"}), _check_plugins),
)
"""Checks with their keys: a check runs when one of its keys is set and none is invalid."""
