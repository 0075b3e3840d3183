"""Write the reference pages, or name those that are not fresh."""

from __future__ import annotations

import sys

from reference import FOLDER, stale_pages


def main(words: list[str]) -> int:
    """Write the pages; with `--check` only name them."""
    stale = stale_pages()
    for name, text in stale.items():
        print(FOLDER / name)
        if "--check" not in words:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
