"""Protobuf: bytes of messages as columns and back, its schemas beside Kafka Connect's.

- `converter`   Protobuf with a schema registry, as Confluent's ProtobufConverter
- `schema`      Protobuf's schemas in their own language as types
- `descriptor`  Protobuf's schemas in the compiler's form as types
- `types`       what Protobuf's schemas describe
- `connect`     Protobuf's schemas to Kafka Connect's, and back
- `decoder`     Protobuf's bytes to columns, all messages at once
- `encoder`     columns to Protobuf's bytes, all rows at once
"""
