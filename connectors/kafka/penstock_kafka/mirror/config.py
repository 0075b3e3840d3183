"""The keys that sources of a mirror share: MirrorMaker's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, key
from penstock_connector.reach import Reach
from penstock_kafka.broker import Broker
from penstock_kafka.client_settings import ClientKind, translate
from penstock_kafka.login import LoginConfig
from penstock_kafka.mirror.keys_without_effect import KeysWithoutEffect
from penstock_kafka.mirror.policy import ReplicationPolicy

_ALIAS: Final = "alias"
_SERVERS: Final = "bootstrap.servers"
_POLICIES: Final = {"DefaultReplicationPolicy": False, "IdentityReplicationPolicy": True}
_CLUSTERS: Final = "Clusters"
_OF_SINK: Final = "the sink of the mirror has the producer"


@dataclass(frozen=True)
class MirrorConfig(KeysWithoutEffect):
    """Two clusters, and how topics of one are named in the other."""

    source_cluster_alias: str = key(
        "source", doc="Name of the cluster that is mirrored.", group=_CLUSTERS
    )
    target_cluster_alias: str = key(
        "target", doc="Name of the cluster that has the mirror.", group=_CLUSTERS
    )
    source_cluster: Mapping[str, str] = key(
        doc="Connection to the one: `source.cluster.bootstrap.servers`, and logins as of "
        "`kafka-source`.",
        group=_CLUSTERS,
    )
    target_cluster: Mapping[str, str] = key(
        doc="Connection to the other. Without it, topics are created by the sink.",
        group=_CLUSTERS,
    )
    replication_policy_class: str = key(
        "DefaultReplicationPolicy",
        doc="`DefaultReplicationPolicy`: a topic's name begins with the alias of its cluster; "
        "`IdentityReplicationPolicy`: it stays as it is. With a package before it, too.",
        group="Names",
    )
    replication_policy_separator: str = key(".", doc="Between alias and name.", group="Names")
    replication_policy_internal_topic_separator_enabled: bool = key(
        True,
        doc="Whether names of the mirror's own topics have the separator, too.",
        group="Names",
    )
    admin: Mapping[str, str] = key(doc="Settings of the clients that list topics.", group="Other")
    source_admin: Mapping[str, str] = key(doc="As `admin.*`, of the source.", group="Other")
    target_admin: Mapping[str, str] = key(doc="As `admin.*`, of the target.", group="Other")
    producer: Mapping[str, str] = key(doc=f"No effect: {_OF_SINK}.", group="Other")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if not self.source_cluster.get(_SERVERS):
            raise ConfigError(
                "config.missing",
                "`source.cluster.bootstrap.servers` has no value and needs one",
                fix="Name brokers of the cluster that is mirrored, as host:port.",
                config_path="source.cluster.bootstrap.servers",
            )
        name = self.replication_policy_class.rpartition(".")[2]
        if name not in _POLICIES:
            raise ConfigError(
                "config.invalid_value",
                f"`replication.policy.class` names {self.replication_policy_class[:200]!r}, a "
                "class of Java",
                fix=f"Use {' or '.join(_POLICIES)}.",
                config_path="replication.policy.class",
            )
        if self.source_cluster_alias == self.target_cluster_alias:
            raise ConfigError(
                "config.conflict",
                f"both clusters have the name {self.source_cluster_alias!r}, by which a topic that "
                "came from the target could not be told",
                fix="Give them different `source.cluster.alias` and `target.cluster.alias`.",
                config_path="target.cluster.alias",
            )
        self.source_login()
        self.target_login()
        for client in self.source_admin, self.target_admin:
            translate("admin", {**self.admin, **client})

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        return {
            **{f"producer.{name}": _OF_SINK for name in self.producer},
            **unused_client_keys("admin", "admin", self.admin),
            **unused_client_keys("admin", "source.admin", self.source_admin),
            **unused_client_keys("admin", "target.admin", self.target_admin),
            **self._unused_of_logins(),
        }

    def _unused_of_logins(self) -> dict[str, str]:
        logins = {"source.cluster": self.source_login(), "target.cluster": self.target_login()}
        return {
            f"{prefix}.{name}": why
            for prefix, login in logins.items()
            if login is not None
            for name, why in login.unused_keys().items()
        }

    def require_reach(self) -> None:
        """Refuse brokers that the node does not let it reach."""
        super().require_reach()
        self.source_login()
        self.target_login()

    @property
    def policy(self) -> ReplicationPolicy:
        """How topics are named."""
        is_identity = _POLICIES[self.replication_policy_class.rpartition(".")[2]]
        alias = self.source_cluster_alias
        return ReplicationPolicy(self.replication_policy_separator, is_identity, alias)

    @property
    def syncs_topic(self) -> str:
        """The topic of offset syncs, in the target."""
        dot = self.internal_separator
        return f"mm2-offset-syncs{dot}{self.source_cluster_alias}{dot}internal"

    @property
    def checkpoints_topic(self) -> str:
        """The topic of checkpoints, in the target."""
        dot = self.internal_separator
        return f"{self.source_cluster_alias}{dot}checkpoints{dot}internal"

    @property
    def internal_separator(self) -> str:
        """What separates the parts of names of the mirror's own topics."""
        is_own = self.replication_policy_internal_topic_separator_enabled
        return self.replication_policy_separator if is_own else "."

    def source_login(self) -> LoginConfig:
        """Return the connection to the source."""
        return _login("source.cluster", self.source_cluster, self.reach)

    def target_login(self) -> LoginConfig | None:
        """Return the connection to the target; None where it is not configured."""
        if not self.target_cluster.get(_SERVERS):
            return None
        return _login("target.cluster", self.target_cluster, self.reach)

    def source_admin_broker(self) -> Broker:
        """Return the source as clients see it that ask for topics."""
        return Broker(self.source_login(), "admin", {**self.admin, **self.source_admin})

    def target_admin_broker(self) -> Broker | None:
        """Return the target as such clients see it."""
        login = self.target_login()
        if login is None:
            return None
        return Broker(login, "admin", {**self.admin, **self.target_admin})


def unused_client_keys(kind: ClientKind, prefix: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a client that do nothing, and why. `prefix` is what they begin with."""
    unused = translate(kind, keys).unused
    return {f"{prefix}.{path.removeprefix(f'{kind}.')}": why for path, why in unused.items()}


def _login(prefix: str, keys: Mapping[str, str], reach: Reach) -> LoginConfig:
    """Return the connection in keys with a prefix.

    Raises:
        ConfigError: as for a connection's keys, with the prefix; `config.unknown_key`.
    """
    own = {name: text for name, text in keys.items() if name != _ALIAS}
    return LoginConfig.of(prefix, own, reach)
