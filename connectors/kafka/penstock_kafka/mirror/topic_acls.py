"""Rights (ACLs) to topics of the target: those to topics of the source, but for writing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from penstock_connector import ConnectorError
from penstock_kafka.broker import Broker

log = logging.getLogger(__name__)

_OF_TOPICS: Final = AclBindingFilter(
    ResourceType.TOPIC,
    None,
    ResourcePatternType.LITERAL,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


_TIMEOUT_S: Final = 5.0
"""Time for each of at most three answers. Together they must leave room for the rest of an opening,
on which the host gives up after 30 s.
"""

_REFUSED: Final = (KafkaException, ConnectorError, TimeoutError)

_NOT_SEEN: Final = (
    "rights to topics of the source are not mirrored: the mirror's user may not see them; allow it "
    "DESCRIBE of the cluster there, or set sync.topic.acls.enabled=false"
)


@dataclass(frozen=True, slots=True)
class TopicAcls:
    """Gives users in the target the rights that they have in the source.

    Attributes:
        source: Where topics are mirrored from.
        target: Where they are mirrored to.
    """

    source: Broker
    target: Broker

    def sync(self, names: Mapping[str, str]) -> None:
        """Create the rights that topics of the target lack. None is taken away there. A cluster
        without an authorizer has no rights; what a cluster refuses is logged, and stops nothing.

        Args:
            names: Names in the target by names in the source.
        """
        whose = "of the source"
        try:
            bindings = self._of_source()
            wanted = mirrored_acls(bindings, names)
            if wanted:
                whose = "of the target"
                self._create(wanted)
        except _REFUSED as failure:
            _log_failure(whose, failure)

    def _of_source(self) -> list[AclBinding]:
        admin = self.source.admin()
        asked = admin.describe_acls(_OF_TOPICS, request_timeout=_TIMEOUT_S)
        bindings: list[AclBinding] = asked.result(2 * _TIMEOUT_S)
        if not bindings and not _may_describe(admin):
            log.warning(_NOT_SEEN)
        return bindings

    def _create(self, wanted: list[AclBinding]) -> None:
        """Create rights. Those that are there stay as they are (KIP-140)."""
        admin = self.target.admin()
        asked = admin.create_acls(wanted, request_timeout=_TIMEOUT_S)
        failures = dict[str, Exception]()
        for answer in asked.values():
            try:
                answer.result(2 * _TIMEOUT_S)
            except _REFUSED as failure:
                failures[str(failure)] = failure
        for different in failures.values():
            _log_failure("of the target", different)


def mirrored_acls(bindings: Iterable[AclBinding], names: Mapping[str, str]) -> list[AclBinding]:
    """Return the rights that the target should have, as `MirrorSourceConnector` of MirrorMaker 2
    has them: only the mirror writes its topics. So who may write in the source may not here, and
    who may do all may read. What is forbidden for a topic is forbidden in both.
    """
    found = (
        AclBinding(
            one.restype,
            names[one.name],
            one.resource_pattern_type,
            one.principal,
            one.host,
            _ALLOWED.get(one.operation, one.operation) if _allows(one) else one.operation,
            one.permission_type,
        )
        for one in bindings
        if one.name in names and not (_allows(one) and one.operation is AclOperation.WRITE)
    )
    return list(dict.fromkeys(found))  # who may do all, and may read, may read once


_ALLOWED: Final = {AclOperation.ALL: AclOperation.READ}
"""What is allowed in the target instead."""


def _allows(binding: AclBinding) -> bool:
    return binding.permission_type is AclPermissionType.ALLOW


def _may_describe(admin: AdminClient) -> bool:
    """Return whether a user may see rights. Without it, the client answers that there are none."""
    asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=_TIMEOUT_S)
    return AclOperation.DESCRIBE in (asked.result(2 * _TIMEOUT_S).authorized_operations or ())


def _log_failure(whose: str, failure: Exception) -> None:
    is_kafkas = isinstance(failure, KafkaException)
    if is_kafkas and failure.args[0].code() == KafkaError.SECURITY_DISABLED:
        log.info("rights to topics %s: it has no authorizer, and so none", whose)
    else:
        why = str(failure) or f"no answer within {2 * _TIMEOUT_S:g} s"
        log.warning("rights to topics %s are not mirrored: %s", whose, why)
