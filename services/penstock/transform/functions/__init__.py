"""Python functions of the user as transforms: `type=python`.

- `python_function`: the transform and its keys
- `code`: finds the file in the folders that the node allows, reads it, and imports its function
- `column_declaration`: parses output columns, as in `id int64, name string`
- `kernel`: calls the function in the executors, and rejects the rows on which it fails
"""
