"""Files of workers, connectors and pipelines, as every command reads them.

- `files`           properties, JSON or YAML; values are text as written
- `connector_file`  connectors and pipelines, with their transforms and predicates
"""
