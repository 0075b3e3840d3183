"""A connection to one of the brokers, in a thread of its own, that is opened again when it breaks.

Callbacks run in that thread. What ends the connection for good is in `failure`, and raised by
`require`.
"""

from __future__ import annotations

import contextvars
import itertools
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError
from penstock_connector.connection import CONNECT_WITHIN_S, Retry, log_attempt
from penstock_messaging.mqtt.config import MqttConfig, Server

_BACKOFF: Final = Retry(attempts=0, backoff_s=0.05, max_backoff_s=5.0, jitter=True)
_LOOP_S: Final = 0.5
_CLOSE_S: Final = 5.0
_GOODBYE_S: Final = 1.0
"""A broker that hangs does not read that we leave."""

_STABLE_S: Final = 5.0
"""A connection that breaks sooner is not counted as one: two clients of one name that take it from
each other must not do so for ever."""

_MOST_IN_FLIGHT: Final = 65_535

_BAD_LOGIN: Final = frozenset({0x86, 0x87, 0x8C})
_TAKEN_OVER: Final = 0x8E
_BAD_CLIENT_ID: Final = 0x85
_BAD_VERSION: Final = frozenset({0x84})


@dataclass(frozen=True, slots=True)
class Session:
    """What a connection asks for: a session that stays, and for how long.

    Attributes:
        client_id: Name of the session; empty: the broker chooses one.
        is_clean: Forget what was before.
        expiry_s: Seconds that it stays without a connection.
        receive_maximum: Messages that the broker may send before they are acknowledged.
    """

    client_id: str = ""
    is_clean: bool = True
    expiry_s: int = 0
    receive_maximum: int = _MOST_IN_FLIGHT


def _ignore(*_: Any) -> None:
    """Nothing is asked for."""


@dataclass(slots=True)
class Callbacks:
    """What is called in the thread of the connection.

    Attributes:
        connected: A broker took it: whether it had the session.
        lost: It broke.
        message: A message came.
        published: A message was taken or refused: its id, and the reason.
        subscribed: Filters were taken or refused: the reasons.
    """

    connected: Callable[[bool], object] = _ignore
    lost: Callable[[], object] = _ignore
    message: Callable[[Any], object] = _ignore
    published: Callable[[int, Any], object] = _ignore
    subscribed: Callable[[list[Any]], object] = _ignore


@dataclass(slots=True)
class Limits:
    """What the broker said that it takes."""

    in_flight: int = _MOST_IN_FLIGHT
    packet_bytes: int = 0
    qos: int = 2
    takes_retained: bool = True


@dataclass(slots=True)
class _State:
    """Guarded by `changed`."""

    is_connected: bool = False
    failure: ConnectorError | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)


class Broker:
    """One client of brokers.

    Attributes:
        client: The client of the library; its methods that send may be called from any thread.
        limits: Those of the broker that is connected.
    """

    def __init__(self, config: MqttConfig, session: Session, callbacks: Callbacks) -> None:
        self._library = import_client()
        self._config, self._session, self._call = config, session, callbacks
        self.limits = Limits()
        self._state = _State()
        self._closing = threading.Event()
        self._close_at = 0.0
        self._why = "it does not answer"
        client = self._library.Client(
            self._library.CallbackAPIVersion.VERSION2,
            client_id=session.client_id,
            protocol=self._library.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        client.connect_timeout = config.mqtt_connect_timeout_seconds
        client.max_inflight_messages_set(0)  # whoever sends has a window of its own
        client.max_queued_messages_set(0)
        if config.mqtt_username:
            client.username_pw_set(config.mqtt_username, config.mqtt_password or None)
        if (tls := config.tls()) is not None:
            client.tls_set_context(tls)
        for name, call in {
            "on_connect": self._on_connect,
            "on_disconnect": self._on_disconnect,
            "on_message": lambda _, __, message: callbacks.message(message),
            "on_publish": lambda _, __, mid, reason, ___: callbacks.published(mid, reason),
            "on_subscribe": lambda _, __, ___, reasons, ____: callbacks.subscribed(reasons),
            "on_socket_register_write": _ignore,  # the thread of the connection alone writes
        }.items():
            setattr(client, name, call)
        self.client: Any = client
        inside = contextvars.copy_context()  # what the thread logs is of the task, too
        self._thread = threading.Thread(
            target=inside.run, args=(self._run,), name="mqtt", daemon=True
        )

    def open(self, wait: Callable[[float], object]) -> None:
        """Connect. `wait` returns True when the task is ending.

        Raises:
            ConnectorError: no broker takes the connection.
        """
        self._thread.start()
        until = time.monotonic() + min(CONNECT_WITHIN_S, self._config.max_retry_time_ms)
        while time.monotonic() < until and not wait(0):
            with self._state.changed:
                if self._state.changed.wait_for(self._is_decided, 0.2):
                    break
        self.require()
        if not self.is_connected:
            raise self._unavailable()

    def _is_decided(self) -> bool:
        return self._state.is_connected or self._state.failure is not None

    @property
    def is_connected(self) -> bool:
        """Whether a broker has taken the connection, and it has not broken."""
        return self._state.is_connected

    @property
    def why(self) -> str:
        """Why a connection broke last."""
        return self._why

    def require(self) -> None:
        """Raise what ended the connection for good."""
        if self._state.failure is not None:
            raise self._state.failure

    @property
    def has_failed(self) -> bool:
        """Whether the connection ended for good."""
        return self._state.failure is not None

    def subscribe_options(self, qos: int, retain_handling: int) -> Any:
        """Return the library's options of a subscription."""
        return self._library.SubscribeOptions(qos=qos, retainHandling=retain_handling)

    def publish_properties(self) -> Any:
        """Return the library's properties of a message, which are empty."""
        return self._library.Properties(self._library.PacketTypes.PUBLISH)

    def fail(self, error: ConnectorError) -> None:
        """End the connection for good."""
        with self._state.changed:
            self._state.failure = self._state.failure or error
            self._state.changed.notify_all()
        self._call.lost()
        self._closing.set()

    def close(self) -> None:
        """Leave the broker. What waits to be sent is not."""
        self._close_at = time.monotonic() + _GOODBYE_S
        self._closing.set()
        if self._thread.is_alive():
            self.client.disconnect()
            self._thread.join(_CLOSE_S)
        self.client = None  # it closes its pair of sockets when it goes

    def _run(self) -> None:
        down_since = time.monotonic()
        tries = 0
        for server in itertools.cycle(self._config.servers):
            if self._closing.is_set():
                return
            began = time.monotonic()
            if self._talk(server) and time.monotonic() - began > _STABLE_S:
                tries, down_since = 0, time.monotonic()
            tries += 1
            if self._closing.is_set():
                return
            if time.monotonic() - down_since > self._config.max_retry_time_ms:
                self.fail(self._unavailable())
                return
            pause_s = _BACKOFF.pause_s(tries)
            log_attempt(self._unavailable(), tries, pause_s)
            self._closing.wait(pause_s)

    def _talk(self, server: Server) -> bool:
        """Be connected to a broker until that breaks; return whether it took the connection."""
        was_connected = False
        try:
            self.client.connect(
                server.host,
                server.port,
                keepalive=self._config.mqtt_keepalive_interval_seconds,
                clean_start=self._session.is_clean,
                properties=self._connect_properties(),
            )
            until = time.monotonic() + self._config.mqtt_connect_timeout_seconds
            self._why = f"{server} closed the connection"
            while self.client.loop(_LOOP_S) == self._library.MQTT_ERR_SUCCESS:
                was_connected |= self.is_connected
                if not was_connected and time.monotonic() > until:
                    self._why = f"{server} does not answer"
                    break
                if self._closing.is_set() and time.monotonic() > self._close_at:
                    break
        except ssl.SSLCertVerificationError as error:
            self.fail(_bad_certificate(server, error))
        except OSError as error:
            self._why = f"{server}: {error}"
        except Exception as error:  # noqa: BLE001 - the library has no class for what is not MQTT
            self._why = f"{server} answers what is not MQTT 5 ({type(error).__name__}: {error})"
        finally:
            was_connected |= self.is_connected
            self._set_lost()
            if (socket := self.client.socket()) is not None:
                socket.close()
        return was_connected

    def _connect_properties(self) -> Any:
        properties = self._library.Properties(self._library.PacketTypes.CONNECT)
        wanted = {"ReceiveMaximum": self._session.receive_maximum}
        if self._session.expiry_s:
            wanted["SessionExpiryInterval"] = self._session.expiry_s
        for name, value in wanted.items():
            setattr(properties, name, value)
        return properties

    def _on_connect(self, _: Any, __: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._why = f"the broker refuses the connection: {reason}"
            if (error := _refusal(reason, self._config)) is not None:
                self.fail(error)
            return
        self.limits = Limits(
            getattr(properties, "ReceiveMaximum", _MOST_IN_FLIGHT),
            getattr(properties, "MaximumPacketSize", 0),
            getattr(properties, "MaximumQoS", 2),
            bool(getattr(properties, "RetainAvailable", 1)),
        )
        with self._state.changed:
            self._state.is_connected = True
            self._state.changed.notify_all()
        self._call.connected(flags.session_present)

    def _on_disconnect(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self._set_lost()
        if reason.value == _TAKEN_OVER:
            self.fail(
                RetriableError(
                    "mqtt.session_taken_over",
                    f"another client connected as {self._session.client_id!r}",
                    fix="Give each connector a `mqtt.client.id` of its own.",
                    config_path="mqtt.client.id",
                )
            )
        elif reason.is_failure:
            name = self._session.client_id
            other = f"; another client may have connected as {name!r}" if name else ""
            self._why = f"the connection ended: {reason}{other}"

    def _set_lost(self) -> None:
        with self._state.changed:
            was_connected, self._state.is_connected = self._state.is_connected, False
        if was_connected:
            self._call.lost()

    def _unavailable(self) -> RetriableError:
        return RetriableError(
            "mqtt.unavailable",
            f"no broker of `mqtt.server.uri` takes a connection: {self._why}",
            fix="Start the broker, or correct `mqtt.server.uri`.",
            config_path="mqtt.server.uri",
        )


def connect_once(config: MqttConfig, session: Session) -> bool:
    """Connect and leave; return whether the broker had the session.

    Raises:
        ConnectorError: no broker takes the connection.
    """
    had: list[bool] = []
    broker = Broker(config, session, Callbacks(connected=had.append))
    try:
        broker.open(lambda _: False)
    finally:
        broker.close()
    return any(had)


def import_client() -> Any:
    """Return the library that speaks MQTT.

    Raises:
        ConfigError: `mqtt.no_library`.
    """
    try:
        from paho.mqtt import client, packettypes, properties, subscribeoptions  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "mqtt.no_library",
            "the library that speaks MQTT is not installed",
            fix="Install it on all workers: pip install 'penstock[mqtt]'.",
        ) from error
    return _Library(client, packettypes, properties, subscribeoptions)


class _Library:
    """Names of several modules in one place: it is imported when it is needed."""

    def __init__(self, client: Any, packettypes: Any, properties: Any, options: Any) -> None:
        self.Client, self.CallbackAPIVersion = client.Client, client.CallbackAPIVersion
        self.MQTTv5, self.MQTT_ERR_SUCCESS = client.MQTTv5, client.MQTT_ERR_SUCCESS
        self.PacketTypes, self.Properties = packettypes.PacketTypes, properties.Properties
        self.SubscribeOptions = options.SubscribeOptions


def _refusal(reason: Any, config: MqttConfig) -> ConnectorError | None:
    """Return what ends the connection for good; None: another try may succeed."""
    user = config.mqtt_username
    if reason.value in _BAD_LOGIN:
        who = f"user {user!r}" if user else "clients without a user"
        return AuthError(
            "mqtt.not_authorized",
            f"the broker refuses {who}: {reason}",
            fix="Correct `mqtt.username` and `mqtt.password`, or the users of the broker.",
            config_path="mqtt.password" if user else "mqtt.username",
        )
    if reason.value == _BAD_CLIENT_ID:
        return ConfigError(
            "mqtt.client_id",
            f"the broker refuses the client id: {reason}",
            fix="Set `mqtt.client.id` to one that it takes.",
            config_path="mqtt.client.id",
        )
    if reason.value in _BAD_VERSION:
        return ConfigError(
            "mqtt.protocol_version",
            "the broker does not speak MQTT 5",
            fix="Use a broker with MQTT 5 (Mosquitto 1.6, EMQX 4, HiveMQ 4 or later).",
            config_path="mqtt.server.uri",
        )
    return None


def _bad_certificate(server: Server, error: ssl.SSLCertVerificationError) -> AuthError:
    return AuthError(
        "mqtt.tls",
        f"the certificate of {server} is not trusted: {error.verify_message}",
        fix="Set `mqtt.ssl.trust.store.path` to the certificates that sign it.",
        config_path="mqtt.ssl.trust.store.path",
    )
