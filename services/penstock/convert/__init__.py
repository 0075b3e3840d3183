"""Converters: bytes of messages ↔ columns, as Kafka Connect's converters do it. Pure.

- `port`       what a converter is: `decode` and `encode`, and what they return
- `registry`   converters by name (Kafka Connect's class names are aliases) and their keys
- `json`       JSON with and without schemas, exact to Kafka's JsonConverter
- `connect`    Kafka Connect's schemas as JSON ↔ Arrow fields
- `reading`    JSON values as Arrow values, by a schema or by what they are
- `writing`    Arrow values as JSON text, as Jackson writes it
- `plain`      String and ByteArray
- `numbers`    Boolean, Short, Integer, Long, Float, Double

A converter sees one side of a message: its key or its value. What becomes of the columns is its
user's: this room lies below the engine, so that executors can convert where the bytes are.
"""
