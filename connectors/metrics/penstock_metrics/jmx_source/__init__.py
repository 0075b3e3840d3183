"""`jmx-source`: attributes of a JVM's MBeans as rows, by Jolokia (HTTP and JSON).

- `config`   the keys
- `mbeans`   names of MBeans, and which attributes are read
- `answers`  what Jolokia answers, as samples
- `target`   one scrape: a bulk request, and its answer as rows
- `source`   the task
"""

from penstock_metrics.jmx_source.source import JmxSource

__all__ = ["JmxSource"]
