"""Avro: bytes of messages as columns and back, and its schemas beside Kafka Connect's.

- `converter`  Avro with a schema registry, as Confluent's AvroConverter
- `schema`     Avro's schemas as types, their names resolved
- `connect`    Avro's schemas to Kafka Connect's, and back
- `decoder`    Avro's bytes to columns, all messages at once
- `encoder`    columns to Avro's bytes, all rows at once
"""
