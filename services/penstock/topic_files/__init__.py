"""The files of embedded topics, as executors write and read them: Arrow and files, without a Delta
log. And the folders that keep them: of a file system, or of an S3-compatible store.

- `file_writer`   writes a slot's rows into files, by partition
- `file_reader`   reads rows of the files that the driver names
- `stored_types`  converts Arrow types into those that a topic stores
- `layout`        names of columns and files
- `folder`        the port of a folder, and the settings of S3
- `local_folder`, `s3_folder`  its two implementations
- `locations`     opens the folder at a path or a URL
"""
