"""Metrics, in one plugin: `python -m penstock_metrics`.

- `prometheus_source`   metrics of targets as rows, by scraping
- `statsd_source`       metrics that applications send, as rows
- `syslog_source`       messages of syslog, as rows
- `jmx_source`          attributes of MBeans as rows, by Jolokia
- `ganglia_source`      metrics of gmond, as rows
- `prometheus_sink`     rows as samples, by remote write
- `remote_write`        the request of that protocol: series, labels, samples
- `samples`             rows, or lines of text, as samples
- `exposition`          the text formats of Prometheus and OpenMetrics
- `listener`            what others send, by UDP, TCP and TLS, within bounds
- `scrape`              targets that are asked at intervals
- `rows`                the rows that sources of metrics give
- `web`                 a request and its answer, within a time and a size

`plugin.toml` is the manifest by which a host finds them. The READMEs have every key.
"""

from penstock_metrics.ganglia_source import GangliaSource
from penstock_metrics.jmx_source import JmxSource
from penstock_metrics.prometheus_sink import PrometheusSink
from penstock_metrics.prometheus_source import PrometheusSource
from penstock_metrics.statsd_source import StatsdSource
from penstock_metrics.syslog_source import SyslogSource

__all__ = [
    "CONNECTORS",
    "GangliaSource",
    "JmxSource",
    "PrometheusSink",
    "PrometheusSource",
    "StatsdSource",
    "SyslogSource",
]

CONNECTORS = (
    PrometheusSource,
    StatsdSource,
    SyslogSource,
    JmxSource,
    GangliaSource,
    PrometheusSink,
)
"""What the plugin serves."""
