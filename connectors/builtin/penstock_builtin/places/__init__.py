"""Where files are: the port, and its drivers.

- `port`    what a reader needs of a place: look, open, find
- `local`   a file system
- `s3`      an S3-compatible store: `s3_keys` how it is reached, `s3_signing` and `s3_http` one
            request, `s3_store` the requests that exist, `s3_xml` what the store answers
- `sftp`    an SFTP server; `sftp_keys` how it is reached, `sftp_session` the connection
"""
