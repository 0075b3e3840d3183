"""Files of workers, connectors and pipelines, as every verb reads them.

- `files`           properties, JSON or YAML; scalars are texts as they were written
- `connector_file`  the file of a connector, with its transforms and predicates
- `pipeline`        a connector that is a pipeline: a source and a sink, no topic
"""
