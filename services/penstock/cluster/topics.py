"""Where the topics of a cluster are. Its workers agree on one place: a sink on a worker that looks
elsewhere would find an empty topic, and wait for ever.

The first worker writes the place down. It binds as long as any worker is alive; then the next one
may say another, which is how a cluster's topics are moved.
"""

from __future__ import annotations

import os
import re
from typing import Final

from penstock.etcd import Etcd, settle
from penstock.model.errors import ConfigError

TRAIT: Final = "topics"

_FILE: Final = "file://"


def place_of(topics_dir: str) -> str:
    """Return a place as all workers name it: an absolute path, or a URL without credentials."""
    if "://" in topics_dir and not topics_dir.startswith(_FILE):
        return re.sub(r"://[^/@]*@", "://", topics_dir).rstrip("/")  # invariant 9
    # links stay: they differ from machine to machine, and what people write can be made the same
    return os.path.abspath(topics_dir.removeprefix(_FILE))  # noqa: PTH100 - pathlib keeps `..`


async def agree(client: Etcd, topics_dir: str) -> None:
    """Write down where topics are, or refuse a place that is not that of the other workers.

    Asked before a worker registers and again after: of two that begin together with different
    places, each sees a cluster without workers, and only one may stay.

    Raises:
        ConfigError: `cluster.topics_elsewhere`.
    """
    ours = place_of(topics_dir)
    theirs = await settle(client, TRAIT, ours, "worker")
    if theirs != ours:
        raise ConfigError(
            "cluster.topics_elsewhere",
            f"the other workers of `{client.settings.cluster}` keep topics at {theirs},"
            f" this one would at {ours}",
            fix=f"Set `topics.dir` to {theirs} if that is one folder for all workers, or give all"
            " of them one that they share. To move the topics of the cluster: end all workers, move"
            " the files, and start them with the new place; without a living worker it is taken.",
            config_path="topics.dir",
        )
