"""Headers of messages: their values as texts, and the types of these.

- `values`  values of headers as texts, as Kafka Connect's `Values`
- `types`   the types of headers, beside rows that have their texts
"""
