"""`statsd-source`: metrics that applications send, as rows.

- `config`       the keys
- `parsing`      lines of StatsD and DogStatsD as columns
- `aggregation`  what a flush interval came to
- `source`       the task
"""

from penstock_metrics.statsd_source.source import StatsdSource

__all__ = ["StatsdSource"]
