"""Logs, log levels, redaction of secrets, and export of telemetry.

- `logs`: log lines on stderr as text or JSON, their context, and recent lines
- `log_levels`: levels of loggers, changed while the process runs
- `redaction`: secrets as values that print `***`, and their redaction in log lines and diagnostics
- `otlp`: export of traces, metrics and logs, configured by OpenTelemetry's standard variables
- `otlp_export`: the export itself, imported only when a signal is enabled
"""
