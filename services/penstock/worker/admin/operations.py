"""What a worker is asked beside its tasks: it has the plugins, the engine and the topics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.client import OffsetClient
from penstock.plugin import PluginHost
from penstock.secrets import Secrets
from penstock.spark.engine import Engine
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.admin.dead_letters import LetterReader
from penstock.worker.admin.external_state import Alterer, Applier
from penstock.worker.admin.preview import Rehearsals, Tasting
from penstock.worker.admin.validation import Validator
from penstock.worker.config.reach import Bounds
from penstock.worker.planning.plans import Planner
from penstock.worker.ports import Previews


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
        bounds: Bounds,
        previews: Previews | None,
    ) -> None:
        """All are as `Worker` has them."""
        self.validator = Validator(host, functions, secrets, bounds)
        self.planner = Planner(host, topics, secrets, bounds.reach)
        self.alterer = Alterer(host, secrets, bounds.reach)
        self.applier = Applier(host, secrets, bounds.reach)
        tasting = Tasting(host, self.planner, topics)
        here = Rehearsals(host, engine, tasting, functions, secrets, bounds.reach)
        self.rehearsals: Previews = previews or here
        self.letters = LetterReader(topics, offsets, bounds.reach)
