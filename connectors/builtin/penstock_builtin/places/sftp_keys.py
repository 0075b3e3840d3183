"""How an SFTP server is reached: keys of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_connector import ConfigError, key


@dataclass(frozen=True)
class SftpKeys:
    """A server, who asks it, and how it is known to be the right one."""

    sftp_host: str = key(doc="Name or address of the server.", required=True)
    sftp_port: int = key(22, doc="Its port.")
    sftp_user: str = key(doc="Name of the user there.", required=True)
    sftp_password: str = key(
        "", type="password", sensitive=True, doc="The user's password; this, or a key."
    )
    sftp_key: str = key("", type="password", doc="A private key, as the text of its file.")
    sftp_key_file: str = key(
        "", type="file", doc="File with the private key, on the worker's machine."
    )
    sftp_key_passphrase: str = key("", type="password", doc="Opens the private key.")
    sftp_host_key: tuple[str, ...] = key(
        (),
        doc="Public keys of the server, as `ssh-keyscan` prints them without the name "
        "(`ssh-ed25519 AAAA…`). This or `sftp.known.hosts` is required: no other "
        "server is talked to.",
    )
    sftp_known_hosts: str = key(
        "",
        type="file",
        doc="File with public keys of servers, as ssh has them, on the worker's machine.",
    )

    def refuse_incomplete(self) -> None:
        """Refuse what cannot log in, or would log in anywhere.

        Raises:
            ConfigError: `config.missing`, `config.invalid_value`.
        """
        if not (self.sftp_password or self.sftp_key or self.sftp_key_file):
            raise ConfigError(
                "config.missing",
                "there is nothing to log in with",
                fix="Set `sftp.password`, `sftp.key` or `sftp.key.file`.",
                config_path="sftp.password",
            )
        if not (self.sftp_host_key or self.sftp_known_hosts):
            raise ConfigError(
                "config.missing",
                "the server's own key is not known, and anyone could pretend to be it",
                fix="Set `sftp.host.key` to what `ssh-keyscan -t ed25519 HOST` prints behind the "
                "name, once it was compared, or `sftp.known.hosts` to a file.",
                config_path="sftp.host.key",
            )
        if not 0 < self.sftp_port < 1 << 16:
            raise ConfigError(
                "config.invalid_value", "'sftp.port' is no port", config_path="sftp.port"
            )

    @property
    def sftp_url(self) -> str:
        """What paths of the server begin with in offsets."""
        port = "" if self.sftp_port == 22 else f":{self.sftp_port}"  # the port of ssh
        return f"sftp://{self.sftp_host}{port}"
