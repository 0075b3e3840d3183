"""Between the model and the wire: one `to_proto` and one `from_proto` per message, one file per
proto package.

Domain code never sees protobuf; this room never decides anything.
"""
