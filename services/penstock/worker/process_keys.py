"""The keys of a worker's process. They are separate from what uses them, because every service
checks the names of all keys.
"""

from __future__ import annotations

from typing import Final

from penstock.model.config_def import ConfigKey
from penstock.secrets.provider_settings import PROVIDERS
from penstock.worker.config import broker_topics
from penstock.worker.config.client_overrides import ALLOWLIST, POLICY, TUNING
from penstock.worker.config.reach import REACH, RESERVED

ONLY_SEALED: Final = "plugin.only.sealed"

KEYS: Final = (
    broker_topics.BACKEND,
    ConfigKey("topics.dir", doc="Folder or s3://bucket/prefix; default: in the state folder."),
    ConfigKey(
        "topics.s3.endpoint", doc="URL of the S3 store; default: AWS_ENDPOINT_URL, Amazon's."
    ),
    ConfigKey("topics.s3.region", doc="Region; default: AWS_REGION, us-east-1."),
    ConfigKey("topics.s3.access.key", "password", "", doc="Default: AWS_ACCESS_KEY_ID, a role."),
    ConfigKey("topics.s3.secret.key", "password", "", doc="Default: AWS_SECRET_ACCESS_KEY."),
    ConfigKey("topics.retention", "duration", 0.0, doc="Time that topics keep rows; 0: no limit."),
    ConfigKey("topics.retention.bytes", "size", 0, doc="Size of a topic's partition; 0: no limit."),
    ConfigKey("plugin.path", "list", (), doc="Folders with installed plugins."),
    ConfigKey(
        "plugin.reload", "duration", 10.0, doc="Interval at which they are reloaded; 0: never."
    ),
    ConfigKey(ONLY_SEALED, "boolean", False, doc="Load only plugins with checksums."),
    ConfigKey(
        "plugin.memory.max",
        "size",
        doc="Memory of a plugin process; 0: no limit; default: half of the machine's or "
        "container's, at least 1 GiB.",
    ),
    ConfigKey(
        "plugin.isolation",
        default="shared",
        choices=("shared", "connector", "task"),
        doc="Who shares plugin processes, where a connector does not say it.",
    ),
    ConfigKey(PROVIDERS, "list", (), doc="Providers of secret references `${provider:path:key}`."),
    ConfigKey(POLICY, default="Allowlist", doc="Policy for `producer.override.…`."),
    ConfigKey(ALLOWLIST, "list", TUNING, doc="Client settings that it allows."),
    ConfigKey(REACH, "list", (), doc="Rules of what connectors may reach, in order."),
    ConfigKey("functions.path", "list", (), doc="Folders with Python functions for transforms."),
    ConfigKey("spark.master", doc="Master URL of Spark; default: all cores of this machine."),
    ConfigKey(
        "lane.idle", "duration", 30.0, doc="Time after which a lane of Spark without work ends."
    ),
    ConfigKey("lane.port", "int", 0, doc="Port at which lanes reach this process; 0: any."),
    ConfigKey("spark.driver.memory", default="1g", doc="Heap of the JVM."),
)

SPARK: Final = "spark.conf."
"""Prefix of Spark's own keys."""


def is_open_key(key: str) -> bool:
    """Return whether a key is one that no list has. Such keys are allowed in a file only, not as
    variables.
    """
    return key.startswith((SPARK, f"{PROVIDERS}.", RESERVED)) or broker_topics.is_broker_key(key)
