"""What a worker is asked beside its tasks: it has the plugins, the engine and the topics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.client import OffsetClient
from penstock.plugin import PluginHost
from penstock.secrets import Secrets
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.altering import Alterer
from penstock.worker.applying import Applier
from penstock.worker.letter_reading import LetterReader
from penstock.worker.overrides import OverridePolicy
from penstock.worker.planning import Planner
from penstock.worker.rehearsal import Rehearsals
from penstock.worker.tasting import Tasting
from penstock.worker.validating import Validator


class Asked:
    """Validation, plans, rehearsals, offsets that people set, dead letters."""

    def __init__(
        self,
        host: PluginHost,
        engine: Engine,
        topics: EmbeddedTopics,
        offsets: OffsetClient,
        functions: Sequence[Path],
        secrets: Secrets,
        overrides: OverridePolicy,
    ) -> None:
        """All are as `Worker` has them."""
        self.validator = Validator(host, functions, secrets, overrides)
        self.planner = Planner(host, topics, secrets)
        self.alterer = Alterer(host, secrets)
        self.applier = Applier(host, secrets)
        tasting = Tasting(host, self.planner, topics)
        self.rehearsals = Rehearsals(host, engine, tasting, functions, secrets)
        self.letters = LetterReader(topics, offsets)
