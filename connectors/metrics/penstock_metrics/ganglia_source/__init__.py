"""`ganglia-source`: metrics of Ganglia's gmond as rows.

- `config`   the keys
- `report`   the XML that gmond and gmetad answer, as samples
- `target`   one scrape: a connection, and what comes over it as rows
- `source`   the task
"""

from penstock_metrics.ganglia_source.source import GangliaSource

__all__ = ["GangliaSource"]
