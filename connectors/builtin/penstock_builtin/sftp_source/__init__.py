"""`sftp-source`: rows of files of an SFTP server, read as `file-source` reads others.

- `source`    the task
- `config`    the keys
"""

from penstock_builtin.sftp_source.config import SftpSourceConfig
from penstock_builtin.sftp_source.source import SftpSource

__all__ = ["SftpSource", "SftpSourceConfig"]
