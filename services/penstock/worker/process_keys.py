"""The keys of a worker's process, apart from what they are for: every service reads all names."""

from __future__ import annotations

from typing import Final

from penstock.model.config_def import ConfigKey
from penstock.secrets import PROVIDERS
from penstock.worker.config.client_overrides import ALLOWLIST, POLICY, TUNING
from penstock.worker.config.reach import REACH, RESERVED

ONLY_SEALED: Final = "plugin.only.sealed"

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
    ConfigKey(ONLY_SEALED, "boolean", False, doc="Take only those with checksums."),
    ConfigKey("plugin.memory.max", "size", 0, doc="Memory of a plugin's processes; 0: any."),
    ConfigKey(PROVIDERS, "list", (), doc="Where `${provider:path:key}` is looked up: see there."),
    ConfigKey(POLICY, default="Allowlist", doc="Which `producer.override.…` may be set."),
    ConfigKey(ALLOWLIST, "list", TUNING, doc="Settings of clients that it allows."),
    ConfigKey(REACH, "list", (), doc="Rules of what connectors may reach, in order: see there."),
    ConfigKey("functions.path", "list", (), doc="Folders with Python functions for transforms."),
    ConfigKey("spark.master", doc="Master URL of Spark; default: all cores of this machine."),
    ConfigKey("spark.driver.memory", default="1g", doc="Heap of the JVM."),
)

SPARK: Final = "spark.conf."
"""Keys that start so are Spark's own, after it."""

OPEN: Final = (SPARK, f"{PROVIDERS}.", RESERVED)
"""What keys start with that are no fixed list: they stand in a file alone."""
