"""What the tests here share and nobody else needs; `penstock_kit.testing` is the public kit.

- `checkout`  the checkout under test: its root, its source files, scratch copies of it
- `readme`    the commands that stand in README files, and how they are run
"""
