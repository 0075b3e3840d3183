"""Operations of a worker beside its tasks.

- `connector_plugins`   definitions of connectors and their keys; validation of configurations
- `external_state`      what a connector owns in external systems; offsets altered by an operator
- `datasets`            datasets that the source of a configuration can read
- `preview`             sample rows through the chain of a connector
- `preview_process`     starts and ends the process in which previews run
- `preview_server`      that process
- `dead_letter_reader`  dead letters of a topic
"""
