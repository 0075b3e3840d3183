"""What takes the bad rows of a run: made of what its connector says about them."""

from __future__ import annotations

from penstock.worker.design import Design
from penstock.worker.letters import SHOWN, Letters
from penstock.worker.ports import Engine, ReadStream
from penstock.worker.posting import Post, Posting, Sender


def letters_of(
    design: Design, task_id: str, epoch: int, engine: Engine, post: Post, reader: ReadStream
) -> Letters:
    """Return what takes the bad rows of one run of a task; `post` takes letters of them."""
    settings, rules = design.settings, design.settings.letters
    if not design.letters_to:
        return Letters(rules)
    # a row that fails again is still one of the connector that had it first
    name = settings.replay.of if settings.replay else design.connector.name
    sender = Sender(name, task_id, epoch, settings.stall)
    texts = SHOWN if rules.log and rules.texts else 0
    posting = Posting(
        sender, engine, reader, post, settings.retries, headers=rules.headers, texts=texts
    )
    return Letters(rules, posting)
