"""Where files are: the port, and its drivers.

- `port`    what a reader needs of a place: look, open, find
- `local`   a file system
- `s3`      a store that speaks S3: `s3_keys` how it is reached, `s3_session` as whom and over which
            way, `s3_store` the requests that exist, `google_tokens` who asks Google's
- `hdfs`    a cluster of Hadoop; `hdfs_keys` how it is reached, `hdfs_session` the calls
- `sftp`    an SFTP server; `sftp_keys` how it is reached, `sftp_session` the connection
"""
