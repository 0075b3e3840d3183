"""A hook of MkDocs: leaves out who runs a block of commands (`tests/README.md` has the marks).

The marks stand behind the language of a fence, where the web view of a repository does not show
them. Python-Markdown does not take a fence with such words for one.
"""

from __future__ import annotations

import re
from typing import Any, Final

_FENCE: Final = re.compile(r"^(?P<start> *`{3,} *[\w-]+)(?P<marks>[^\n`]*)$", re.MULTILINE)
_MARK: Final = re.compile(r' +(?:run(?= |$)|tested-by=[^ "]+|not-run="[^"]*")')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page without the marks of its fences."""
    return _FENCE.sub(lambda found: found["start"] + _MARK.sub("", found["marks"]), markdown)
