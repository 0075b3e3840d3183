"""The configuration of a connector, as every service reads, checks and stores it.

- `keys`           the framework's keys: definitions, prefixes, those without effect
- `sections`       keys by owner: framework, chain, plugins; checks across keys
- `settings`       the framework's keys, as values
- `dead_letters`   tolerated rejected rows, the topic of dead letters, and their replay
- `validation`     the only entry: a connector is validated, completed and stored
"""
