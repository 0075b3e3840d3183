"""Python functions of the user as transforms: `type=python`.

- `python`    the transform: its keys, and what the file must have
- `modules`   finds the file in the folders that the node allows, and reads it
- `declared`  output columns as they are written in a configuration
- `kernel`    calls the function in the executors; rows on which it fails are set apart
- `running`   makes a module of the file's text, and tells where in it an error happened
"""
