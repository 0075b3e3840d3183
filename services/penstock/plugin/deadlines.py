"""How long each stage of a plugin's life may take. Every wait here has a deadline (invariant 8)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds per stage. The name of the stage is in the error of a call that took longer."""

    handshake: float = 60.0
    """Start of the process to its handshake line. A Python plugin takes 0.2 s alone, but a node
    that comes back starts all of its plugins at once, beside a JVM."""
    health: float = 5.0
    """Handshake to a serving health service."""
    describe: float = 5.0
    """Describe works offline, so it has no reason to be slow."""
    validate: float = 10.0
    """ValidateConfig: people wait for it."""
    plan: float = 30.0
    """Plan may list files or shards of a remote system."""
    alter_offsets: float = 10.0
    """AlterOffsets: people wait for it."""
    apply: float = 120.0
    """Apply may create tables and slots."""
    check: float = 60.0
    """All steps of CheckConnection together."""
    open: float = 30.0
    """ReadOpen or WriteOpen to its answer: a sink may fence and recover a transaction in it."""
    send: float = 10.0
    """A frame on a control stream. They are small; one that cannot be sent means a plugin that no
    longer reads."""
    schema: float = 60.0
    """Schema to SchemaApplied: may alter tables."""
    prepare: float = 120.0
    """Prepare to Prepared: the sink makes rows durable. Shorter fails slow disks, longer hides a
    hang."""
    commit: float = 120.0
    """Commit to TxnCommitted."""
    slow: float = 10.0
    """An answer of a sink that takes longer is warned of, with its stage and its deadline."""
    end: float = 2.0
    """Grace asked for to its end: how much later than asked a plugin may be."""
