"""`snapshot.mode`: what is read of the tables, and when. Pure.

| mode | the tables | the log |
|---|---|---|
| `initial`, `exported` | are read once | is followed |
| `always` | are read at every start | is followed |
| `when_needed` | are read once, and again when the log is lost | is followed |
| `initial_only` | are read once | is not followed |
| `no_data`, `schema_only` | are not read | is followed from now on |
| `recovery`, `schema_only_recovery` | are not read | is followed from now on |
| `never` | are not read | is followed; in MySQL from the oldest file that is left |
| `configuration_based` | as its keys say | as its keys say |

Source: Debezium's documentation, `snapshot.mode` of its MySQL and PostgreSQL connectors, and of its
releases 1 and 2, which named modes otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, KeyHint, key
from penstock_databases.cdc.signal_keys import SignalKeys

_PATH: Final = "snapshot.mode"
_BASED: Final = "configuration_based"
_DATA: Final = f"{_PATH}.configuration.based.snapshot.data"
_STREAM: Final = f"{_PATH}.configuration.based.start.stream"
_ON_ERROR: Final = f"{_PATH}.configuration.based.snapshot.on.data.error"
_CUSTOM: Final = "custom"

MODES: Final = (
    "initial", "initial_only", "when_needed", "always", "never", "no_data", "schema_only",
    "recovery", "schema_only_recovery", _BASED, "exported",
)  # fmt: skip
_UNREAD: Final = frozenset({"never", "no_data", "schema_only", "recovery", "schema_only_recovery"})
_RECOVERY: Final = frozenset({"recovery", "schema_only_recovery"})


@dataclass(frozen=True)
class SnapshotModeKeys(SignalKeys):
    """What is read of the tables, and when."""

    snapshot_mode: str = key(
        "initial",
        choices=(*MODES, _CUSTOM),
        doc="When the rows that are there already are read: `initial` once; `always` at every "
        "start; `when_needed` also when the log is lost; `initial_only` once, and nothing more; "
        "`no_data` never (`schema_only`, `recovery`, `schema_only_recovery` are the same); "
        "`never`, of MySQL the log from its oldest file on; `configuration_based` as its keys "
        "say; `exported` is `initial`; `custom` is refused.",
    )
    snapshot_mode_configuration_based_snapshot_data: bool = key(
        False, doc="With `snapshot.mode=configuration_based`: read the tables at every start."
    )
    snapshot_mode_configuration_based_start_stream: bool = key(
        False, doc="With `snapshot.mode=configuration_based`: follow the log."
    )
    snapshot_mode_configuration_based_snapshot_on_data_error: bool = key(
        False,
        doc="With `snapshot.mode=configuration_based`: read all tables again when the log is lost.",
    )

    @classmethod
    def key_hints(cls, values: Mapping[str, str]) -> Mapping[str, KeyHint]:
        """Return which modes a form offers: `configuration_based` where its keys read anything."""
        based = "true" in {values.get(name, "").strip().lower() for name in (_DATA, _STREAM)}
        offered = MODES if based else tuple(mode for mode in MODES if mode != _BASED)
        return {_PATH: KeyHint(recommended_values=offered)}

    def check_snapshot_mode(self) -> None:
        """Refuse modes that read nothing, or that only Java has.

        Raises:
            ConfigError: `config.not_supported`, `config.invalid_value`.
        """
        if self.snapshot_mode == _CUSTOM:
            raise ConfigError(
                "config.not_supported",
                "'snapshot.mode' is custom, which is a class of Java (`snapshot.mode.custom.name`)",
                fix=f"Write {_BASED} and its keys ({_DATA}, {_STREAM}, {_ON_ERROR}), or one of "
                f"{', '.join(one for one in MODES if one != _BASED)}.",
                config_path=_PATH,
            )
        if self.snapshot_mode == _BASED and self.only_snapshot and not self.reads_tables:
            raise ConfigError(
                "config.invalid_value",
                f"'snapshot.mode' is {_BASED}, and neither tables nor the log are read: "
                f"{_DATA!r} and {_STREAM!r} are false",
                fix=f"Set one of them: {_DATA}=true, {_STREAM}=true.",
                config_path=_PATH,
            )

    def unused_snapshot_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and have no effect, and why."""
        unused = {}
        if self.snapshot_mode in _RECOVERY:
            unused[_PATH] = (
                f"{self.snapshot_mode} restores the history of schemas, and none is kept: the log "
                "is followed from the offset on, as with no_data"
            )
        if self.snapshot_mode != _BASED:
            set_keys = {
                _DATA: self.snapshot_mode_configuration_based_snapshot_data,
                _STREAM: self.snapshot_mode_configuration_based_start_stream,
                _ON_ERROR: self.snapshot_mode_configuration_based_snapshot_on_data_error,
            }
            why = f"`{_PATH}` is {self.snapshot_mode}, and not {_BASED}"
            unused |= {name: why for name, is_set in set_keys.items() if is_set}
        return unused

    @property
    def reads_tables(self) -> bool:
        """Whether the rows that tables have at the start are read."""
        if self.snapshot_mode == _BASED:
            return self.snapshot_mode_configuration_based_snapshot_data
        return self.snapshot_mode not in _UNREAD

    @property
    def reads_at_every_start(self) -> bool:
        """Whether they are read again at the next one."""
        return self.snapshot_mode == "always" or (
            self.snapshot_mode == _BASED and self.reads_tables
        )

    @property
    def reads_when_lost(self) -> bool:
        """Whether they are read again when the log is lost."""
        if self.snapshot_mode == _BASED:
            return self.snapshot_mode_configuration_based_snapshot_on_data_error
        return self.snapshot_mode == "when_needed"

    @property
    def only_snapshot(self) -> bool:
        """Whether there is nothing more to do when the tables are read."""
        if self.snapshot_mode == _BASED:
            return not self.snapshot_mode_configuration_based_start_stream
        return self.snapshot_mode == "initial_only"
