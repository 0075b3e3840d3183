"""`prometheus-source`: metrics of targets as rows, by scraping.

- `config`    the keys
- `scraping`  one scrape: a request, and its answer as rows
- `source`    the task: when targets are scraped, and what is said of those that are down
"""

from penstock_metrics.prometheus_source.source import PrometheusSource

__all__ = ["PrometheusSource"]
