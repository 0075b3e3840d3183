"""Topics of one cluster in another one, as MirrorMaker 2 mirrors them.

- `policy`            names of mirrored topics, and which topics and groups are mirrored
- `records`           records of MirrorMaker's topics: offset syncs, checkpoints, heartbeats
- `offset_syncs`      offset syncs: written by the sink, read for checkpoints
- `config`            keys that the three sources share
- `target_topics`     topics of the target: partitions and settings of those of the source
- `topic_acls`        rights (ACLs) to topics of the target
- `mirror_source`     messages
- `checkpoint_source` offsets of consumer groups, translated
- `heartbeat_source`  a record a second, by which lag is seen
"""
