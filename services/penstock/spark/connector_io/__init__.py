"""Reads the rows of a slot from a source and writes them to a sink. Runs in the executors.

The driver describes both in the slot's ticket (`penstock.model.ticket`): `SlotTicket.read` and
`.write` are mappings whose `kind` chooses the reader and the writer.

- `source_reader`     `read_rows`: rows of a source plugin (Fetch over gRPC), of an embedded topic,
  of a replay of dead letters, or of the ticket itself
- `sink_writer`       `write_rows`: rows into a sink plugin (Put over gRPC) or an embedded topic;
  the bound on rows that the sink has not acknowledged
- `dead_letters`      writes dead letters of the rejected rows of a slot
- `live_rows`         reports some rows as text, for inspect and preview
- `plugin_transform`  calls a plugin's transform for each batch
- `plugin_calls`      channels to plugins, call metadata, the timeout of calls without progress
- `frames`            encodes and decodes the frames of the plugin protocol
- `json_lines`        rows as JSON lines, for plugins without Arrow and in dead letters

This module imports nothing: executors import it with every function that they receive.
"""
