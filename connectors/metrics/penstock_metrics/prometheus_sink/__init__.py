"""`prometheus-sink`: rows as samples, by remote write.

- `config`  the keys
- `sink`    the task: what is sent, and what an answer means
"""

from penstock_metrics.prometheus_sink.sink import PrometheusSink

__all__ = ["PrometheusSink"]
