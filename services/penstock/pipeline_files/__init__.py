"""Files of workers, connectors and pipelines, as every verb reads them: properties, JSON, YAML."""
