"""`prometheus-source`: metrics of targets as rows, by scraping.

- `config`  the keys
- `target`  one scrape: a request, and its answer as rows
- `source`  the task
"""

from penstock_metrics.prometheus_source.source import PrometheusSource

__all__ = ["PrometheusSource"]
