"""The ends of a plugin: Fetch from a source, Put into a sink, by ticket.

The ticket of a read says `address credential task_id epoch schema_id encoding seqs schema` (the
schema in base64), that of a write `address credential task_id epoch txn_id schema_id
max_message_bytes`.
"""

from penstock.spark.ends.plugin_sink import put
from penstock.spark.ends.plugin_source import fetch

__all__ = ["fetch", "put"]
