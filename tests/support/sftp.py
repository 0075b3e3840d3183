"""An SFTP server of this process (asyncssh's), whose root is a folder."""

import asyncio
import os
import threading

import asyncssh

PASSWORD = "a password of tests"


class Login(asyncssh.SSHServer):
    def begin_auth(self, username):
        return True

    def password_auth_supported(self):
        return True

    def validate_password(self, username, password):
        return (username, password) == ("reader", PASSWORD)


class Server:
    """An SFTP server in a thread of its own; its root is a folder."""

    def __init__(self, root):
        self.root = root
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.client_key = asyncssh.generate_private_key("ssh-ed25519")
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.port = 0
        self.listener = None
        self.connections = []

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    async def _listen(self):
        public = self.client_key.export_public_key().decode()

        def login():
            return Login()

        self.listener = await asyncssh.listen(
            "127.0.0.1", self.port, server_host_keys=[self.host_key], server_factory=login,
            authorized_client_keys=asyncssh.import_authorized_keys(public),
            sftp_factory=lambda chan: asyncssh.SFTPServer(chan, chroot=os.fsencode(self.root)),
            acceptor=self.connections.append,
        )  # fmt: skip
        self.port = self.listener.get_port()

    async def _stop(self):
        self.listener.close()
        await self.listener.wait_closed()
        for connection in self.connections:
            connection.abort()
            await connection.wait_closed()
        self.connections.clear()

    def start(self):
        self.call(self._listen())

    def stop(self):
        self.call(self._stop())

    def end(self):
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    @property
    def public(self):
        return self.host_key.export_public_key().decode().strip()

    def keys(self, **more):
        return {
            "sftp_host": "127.0.0.1", "sftp_port": self.port, "sftp_user": "reader",
            "sftp_password": PASSWORD, "sftp_host_key": (self.public,), "list_interval": 0.05,
            **more,
        }  # fmt: skip

    def url(self, path):
        return f"sftp://127.0.0.1:{self.port}{path}"
