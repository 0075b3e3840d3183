"""Penstock moves record streams between systems, through plugins and Spark, exactly once.

Start at `penstock.model` for the words, `penstock.worker` for the life of a task, `penstock.spark`
for what happens to its rows, and `penstock.standalone` for how the services are put together on one
machine. `services/README.md` is the map.
"""
