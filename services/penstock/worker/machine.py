"""What a worker's process runs with: keys that people set, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.plugin import PluginPath
from penstock.spark.settings import EngineSettings
from penstock.telemetry import Secret
from penstock.topic.embedded.spec import Retention
from penstock.topic_files import S3Settings

KEYS: Final = (
    ConfigKey("topics.dir", doc="Folder or s3://bucket/prefix; default: in the state folder."),
    ConfigKey(
        "topics.s3.endpoint", doc="URL of the S3 store; default: AWS_ENDPOINT_URL, Amazon's."
    ),
    ConfigKey("topics.s3.region", doc="Region; default: AWS_REGION, us-east-1."),
    ConfigKey("topics.s3.access.key", "password", "", doc="Default: AWS_ACCESS_KEY_ID, a role."),
    ConfigKey("topics.s3.secret.key", "password", "", doc="Default: AWS_SECRET_ACCESS_KEY."),
    ConfigKey("topics.retention", "duration", 0.0, doc="Time that topics keep rows; 0: for ever."),
    ConfigKey("topics.retention.bytes", "size", 0, doc="Size of a topic's partition; 0: any."),
    ConfigKey("plugin.path", "list", (), doc="Folders with installed plugins."),
    ConfigKey("plugin.reload", "duration", 10.0, doc="How often they are looked at; 0: never."),
    ConfigKey("plugin.only.sealed", "boolean", False, doc="Take only those with checksums."),
    ConfigKey("plugin.memory.max", "size", 0, doc="Memory of a plugin's processes; 0: any."),
    ConfigKey("functions.path", "list", (), doc="Folders with Python functions for transforms."),
    ConfigKey("spark.master", doc="Master URL of Spark; default: all cores of this machine."),
    ConfigKey("spark.driver.memory", default="1g", doc="Heap of the JVM."),
)

SPARK: Final = "spark.conf."
"""Keys that start so are Spark's own, after it."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Which plugins there are, how often that is looked at (seconds, 0: never), and how much memory
    each may have (bytes, 0: any).
    """

    path: PluginPath
    reload: float = 0.0
    memory_max: int = 0


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """Where topics and plugins are, and how Spark runs."""

    topics_dir: str
    topics_s3: S3Settings
    topics_retention: Retention
    plugins: PluginSettings
    functions_path: tuple[Path, ...]
    engine: EngineSettings


def machine_settings(
    values: Mapping[str, Any], config: Mapping[str, str], topics_dir: Path
) -> MachineSettings:
    """Return the settings. `values` are those of `KEYS`, `config` has Spark's own keys too;
    `topics_dir` is where topics are when nothing is said.
    """
    extra = {k.removeprefix(SPARK): v for k, v in config.items() if k.startswith(SPARK)}
    engine: dict[str, Any] = {"driver_memory": values["spark.driver.memory"], "extra": extra}
    if values["spark.master"]:
        engine["master"] = values["spark.master"]
    return MachineSettings(
        topics_dir=values["topics.dir"] or str(topics_dir),
        topics_s3=S3Settings(
            values["topics.s3.endpoint"] or "",
            values["topics.s3.region"] or "",
            _secret(values["topics.s3.access.key"]),
            _secret(values["topics.s3.secret.key"]),
        ),
        topics_retention=Retention(values["topics.retention"], values["topics.retention.bytes"]),
        plugins=PluginSettings(
            PluginPath(
                tuple(Path(folder) for folder in values["plugin.path"]),
                only_sealed=values["plugin.only.sealed"],
            ),
            reload=values["plugin.reload"],
            memory_max=values["plugin.memory.max"],
        ),
        functions_path=tuple(Path(folder).absolute() for folder in values["functions.path"]),
        engine=EngineSettings(**engine),
    )


def _secret(value: str | Secret) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)
