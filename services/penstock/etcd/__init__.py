"""etcd: members, leader election and leases, and the client below them.

- `settings`    endpoints, credentials, TLS and time-outs
- `errors`      what a failed call means, and the errors with their codes
- `operations`  conditions, operations and results of transactions
- `calls`       methods of etcd, the channel to one member, attempts at one member after the other
- `client`      `Etcd`: calls, watches that resume, lists that follow changes (invariant 7)
- `lease`       a lease that its holder gives up before etcd ends it (self-fencing)
- `election`    leader election, and the fencing token of the leader
- `membership`  `Membership` registers an instance, `Discovery` follows those of a service
- `identity`    detects two clusters with the same name

README.md explains why this client exists.
"""

from penstock.etcd.client import Etcd, Events
from penstock.etcd.election import Election, Leader, Leadership
from penstock.etcd.errors import CompactedError, OutcomeUnknownError
from penstock.etcd.identity import agree_on_trait, claim_cluster, verify_cluster
from penstock.etcd.lease import Lease
from penstock.etcd.membership import Discovery, Member, Members, Membership, Registration
from penstock.etcd.operations import KeyValue, RangeResult, TxnResult
from penstock.etcd.settings import EtcdSettings, Tls

__all__ = [
    "CompactedError",
    "Discovery",
    "Election",
    "Etcd",
    "EtcdSettings",
    "Events",
    "KeyValue",
    "Leader",
    "Leadership",
    "Lease",
    "Member",
    "Members",
    "Membership",
    "OutcomeUnknownError",
    "RangeResult",
    "Registration",
    "Tls",
    "TxnResult",
    "agree_on_trait",
    "claim_cluster",
    "verify_cluster",
]
