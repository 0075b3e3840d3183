"""What has offsets: a source, a sink. People may set them while it is stopped."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_connector._connector import C, Connector
from penstock_connector._values import Partition


class Alterable(Connector[C]):
    """A connector that goes on where its offsets say, whoever wrote them."""

    @classmethod
    def alter_offsets(
        cls, config: C, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Look at offsets that a person wants to set; raise ConfigError to refuse them.

        Override it where an offset may be wrong, or lives outside too: without it, all are stored
        as they come. The connector is stopped. Idempotent: the host may fail before it stores them,
        and ask again. All offsets of a connector may come in parts, each with `dry_run` first.

        Args:
            config: The configuration.
            partitions: Each with the offset that it is to have; None takes it away. Those of a sink
                have the key `{"topic": …, "partition": …}` and an offset `{"offset": …}`.
            dry_run: Only look: nothing is changed outside.

        Returns:
            The same partitions, with the offsets that the host is to store. One that a person named
            as another product does is returned under its own key.
        """
        return partitions

    @classmethod
    def alters(cls) -> bool:
        """Return whether it has a say in offsets that people set."""
        return cls.alter_offsets.__func__ is not Alterable.alter_offsets.__func__  # type: ignore[attr-defined] # class methods
