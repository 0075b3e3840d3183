"""Values that the host and the SDK share: both sides must read and name them alike.

- `identity`: canonical JSON, partition ids
- `frames`: batches in chunks
- `frame_bounds`: refuses batches that would become too large, before they are decoded
- `converter_process`: where the process of a converter is
- `schemas`: schemas of rows, decoded with bounds
- `messages`: values, keys and offsets on the wire
- `decimals`: decimal numbers, exact or refused
- `pattern`: regular expressions of configurations, matched with a timeout
- `topic_creation`: Kafka Connect's keys `topic.creation.…`
- `semantic_types`: what a column is, where Arrow has no type for it
- `security_stores`: certificates and keys from the files that Java's clients read
- `java_keystores`: JKS and JCEKS as PKCS12
- `jaas`: the login in `sasl.jaas.config`

It imports nothing of Penstock but the generated protocol. The services may import this package of
the SDK, and no other one.
"""
