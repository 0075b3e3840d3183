"""The settings of a worker's process: the values of `process_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.model.errors import ConfigError
from penstock.model.topic import Retention
from penstock.plugin.catalog.registry import PluginPath
from penstock.plugin.memory_limit import default_memory_limit
from penstock.secrets.provider_settings import PROVIDERS, ProviderSettings, parse_provider_settings
from penstock.spark.settings import EngineSettings
from penstock.telemetry.redaction import Secret
from penstock.topic_files.folder import S3Settings
from penstock.worker.config.broker_topics import BrokerTopics, read_broker_topics
from penstock.worker.config.client_overrides import (
    ALLOWLIST,
    POLICY,
    OverridePolicy,
    override_policy,
)
from penstock.worker.config.reach import REACH, RESERVED, ReachRules, read_reach_rules
from penstock.worker.process_keys import KEYS, SPARK, is_open_key


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Where plugins are, how often that is checked (seconds, 0: never), how much memory each may
    use (bytes, 0: no limit), and who shares a process.
    """

    path: PluginPath
    reload: float = 0.0
    memory_max: int = 0
    isolation: str = "shared"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Where topics and plugins are, and how Spark runs.

    `values` and `extra` are the raw keys, for the process that runs previews.
    `previews_in_process`: previews run in a process of their own; False runs them in the engine of
    this process. `is_shared`: the worker is one of a cluster.
    """

    topics_dir: str
    topics_s3: S3Settings
    topics_retention: Retention
    brokers: BrokerTopics
    plugins: PluginSettings
    functions_path: tuple[Path, ...]
    providers: tuple[ProviderSettings, ...]
    overrides: OverridePolicy
    reach: ReachRules
    engine: EngineSettings
    values: Mapping[str, Any] = field(repr=False)
    extra: Mapping[str, str] = field(repr=False)
    previews_in_process: bool = True
    is_shared: bool = False


def read_worker_settings(
    values: Mapping[str, Any], config: Mapping[str, str], topics_dir: Path
) -> WorkerSettings:
    """Return the settings. `values` are those of `KEYS`; `config` may have open keys, too.
    `topics_dir` is where topics are without `topics.dir`.

    Raises:
        ConfigError: a provider of secrets, the policy, or a rule is wrong.
    """
    extra = {k.removeprefix(SPARK): v for k, v in config.items() if k.startswith(SPARK)}
    engine: dict[str, Any] = {
        "driver_memory": values["spark.driver.memory"],
        "lane_idle_s": values["lane.idle"],
        "lane_port": _port(values["lane.port"]),
        "extra": extra,
    }
    memory_max = values["plugin.memory.max"]
    if values["spark.master"]:
        engine["master"] = values["spark.master"]
    return WorkerSettings(
        topics_dir=values["topics.dir"] or str(topics_dir),
        topics_s3=S3Settings(
            values["topics.s3.endpoint"] or "",
            values["topics.s3.region"] or "",
            _secret(values["topics.s3.access.key"]),
            _secret(values["topics.s3.secret.key"]),
        ),
        topics_retention=Retention(values["topics.retention"], values["topics.retention.bytes"]),
        brokers=read_broker_topics(values, config),
        plugins=PluginSettings(
            PluginPath(
                tuple(Path(folder) for folder in values["plugin.path"]),
                only_sealed=values["plugin.only.sealed"],
            ),
            reload=values["plugin.reload"],
            memory_max=default_memory_limit() if memory_max is None else memory_max,
            isolation=values["plugin.isolation"],
        ),
        providers=parse_provider_settings(
            values[PROVIDERS], {k: v for k, v in config.items() if k.startswith(f"{PROVIDERS}.")}
        ),
        overrides=override_policy(values[POLICY], values[ALLOWLIST]),
        reach=read_reach_rules(
            values[REACH], {k: v for k, v in config.items() if k.startswith(RESERVED)}
        ),
        functions_path=tuple(Path(folder).absolute() for folder in values["functions.path"]),
        engine=EngineSettings(**engine),
        values={key.name: values[key.name] for key in KEYS},
        extra={key: value for key, value in config.items() if is_open_key(key)},
    )


def _port(number: int) -> int:
    if not 0 <= number <= 65_535:
        raise ConfigError(
            "config.invalid_value",
            f"`lane.port` is {number}, expected 0 to 65535",
            fix="Write a free port, or 0 for any.",
            config_path="lane.port",
        )
    return number


def _secret(value: str | Secret) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)
