"""Spark SQL of users: what it may contain, and which of it Arrow computes.

- `tokens`: splits an expression into tokens; `literals`: names, texts and types as SQL
- `guard`: checks that an expression sees nothing beyond its row, with `allowed_functions` and
  `call_arguments`
- `conditions`: conditions computed by Arrow; `condition_parser`: parses them, and operands
"""
