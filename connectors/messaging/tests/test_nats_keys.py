"""Keys of NATS's connectors: what is refused or has no effect, logins, TLS, what a node allows."""

import pytest

from penstock_connector._config import read_config
from penstock_connector._connectors import spec_of
from penstock_connector.testing import RemoteError, sink_task, source_task
from penstock_messaging import NatsSink, NatsSource
from penstock_messaging.nats import protocol
from penstock_messaging.nats.protocol import FrameDecoder, ProtocolError, matches, overlap
from support.certificates import Authority
from support.nats import NatsServer
from support.nats_accounts import Accounts, new_user

SOURCE = {"nats.servers": "nats://server", "nats.stream": "s"}
CONNECTORS = (NatsSource, NatsSink)
INVALID, CONFLICT = "config.invalid_value", "config.conflict"


def found(connector, config, **told):
    """What is found of a configuration: codes and keys."""
    reach = {"reach.folders": told.get("folders", "*"), "reach.hosts": told.get("hosts", "*")}
    _, errors = read_config(connector.config_type, {**config, **reach})
    return [(error.code, error.config_path) for error in errors]


@pytest.mark.parametrize(
    ("connector", "more", "code", "path"),
    [
        (NatsSource, {"nats.servers": "server:4222"}, INVALID, "nats.servers"),
        (NatsSource, {"nats.servers": "ws://server"}, INVALID, "nats.servers"),
        (NatsSource, {"nats.servers": "nats://u:p@b"}, INVALID, "nats.servers"),
        (NatsSource, {"nats.servers": "nats://b:x"}, INVALID, "nats.servers"),
        (NatsSource, {"nats.servers": "nats://a,tls://b"}, INVALID, "nats.servers"),
        (NatsSource, {"nats.stream": "a.b"}, INVALID, "nats.stream"),
        (NatsSource, {"nats.jetstream.domain": "a b"}, INVALID, "nats.jetstream.domain"),
        (NatsSource, {"nats.inbox.prefix": "a.>"}, INVALID, "nats.inbox.prefix"),
        (NatsSource, {"nats.request.timeout": "0s"}, INVALID, "nats.request.timeout"),
        (NatsSource, {"nats.retry.timeout": "0s"}, INVALID, "nats.retry.timeout"),
        (NatsSource, {"nats.username": "u"}, CONFLICT, "nats.username"),
        (NatsSource, {"nats.password": "p"}, CONFLICT, "nats.password"),
        (
            NatsSource,
            {"nats.token": "t", "nats.nkey.file": "/f"},
            CONFLICT,
            "nats.nkey.file",
        ),
        (NatsSource, {"nats.tls.ca.file": "/ca"}, CONFLICT, "nats.tls.ca.file"),
        (
            NatsSource,
            {"nats.servers": "tls://b", "nats.tls.key.file": "/k"},
            CONFLICT,
            "nats.tls.key.file",
        ),
        (NatsSource, {"nats.filter.subjects": "a..b"}, INVALID, "nats.filter.subjects"),
        (NatsSource, {"nats.filter.subjects": "a.>.b"}, INVALID, "nats.filter.subjects"),
        (NatsSource, {"nats.filter.subjects": "a.*,a.b"}, INVALID, "nats.filter.subjects"),
        (NatsSource, {"nats.consumer": "a.b"}, INVALID, "nats.consumer"),
        (NatsSource, {"nats.deliver.policy": "by_start_time"}, CONFLICT, "nats.start.time"),
        (NatsSource, {"nats.start.sequence": "7"}, CONFLICT, "nats.start.sequence"),
        (
            NatsSource,
            {"nats.deliver.policy": "by_start_time", "nats.start.time": "today"},
            INVALID,
            "nats.start.time",
        ),
        (
            NatsSource,
            {"nats.deliver.policy": "by_start_sequence", "nats.start.sequence": "-1"},
            INVALID,
            "nats.start.sequence",
        ),
        (NatsSource, {"nats.max.ack.pending": "0"}, INVALID, "nats.max.ack.pending"),
        (NatsSource, {"batch.rows": "0"}, INVALID, "batch.rows"),
        (NatsSink, {"nats.subject": "a.*"}, INVALID, "nats.subject"),
        (NatsSink, {"nats.subject": "a b"}, INVALID, "nats.subject"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(connector, more, code, path):
    assert found(connector, SOURCE | more) == [(code, path)]
    assert found(connector, SOURCE) == []


def test_a_password_in_an_address_is_not_shown():
    _, errors = read_config(NatsSource.config_type, SOURCE | {"nats.servers": "nats://u:pw1@b"})
    assert "pw1" not in str(errors[0])


def test_keys_without_an_effect_have_a_word_about_it():
    config, _ = read_config(NatsSink.config_type, SOURCE | {"key.converter": "json"})
    assert set(config.unused_keys()) == {"key.converter"}


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_node_bounds_hosts_and_files(connector):
    assert spec_of(connector).enforces_reach
    assert found(connector, SOURCE, hosts="other") == [("reach.host", "nats.servers")]
    tls = {"nats.servers": "tls://server"}
    pair = {"nats.tls.certificate.file": "/data/c", "nats.tls.key.file": "/etc/shadow"}
    for more, path in (
        ({"nats.nkey.file": "/etc/shadow"}, "nats.nkey.file"),
        ({"nats.credentials.file": "/etc/shadow"}, "nats.credentials.file"),
        (tls | {"nats.tls.ca.file": "/etc/shadow"}, "nats.tls.ca.file"),
        (tls | pair, "nats.tls.key.file"),
    ):
        assert found(connector, SOURCE | more, folders="/data") == [("reach.folder", path)]


def test_subjects_and_filters():
    for pattern, subject, is_one in (
        ("a", "a", True), ("a.*", "a.b", True), ("a.*", "a.b.c", False), ("a.>", "a.b.c", True),
        ("a.>", "a", False), (">", "a", True), ("*.b", "a.b", True), ("a.b", "a", False),
    ):  # fmt: skip
        assert matches(pattern, subject) is is_one, (pattern, subject)
    for one, other, do in (
        ("a.*", "*.b", True), ("a.>", "a.b.c", True), ("a.b", "a.c", False), ("a", "a.b", False),
        ("a.>", "b.>", False), ("a.>", "a", False),
    ):  # fmt: skip
        assert overlap(one, other) is overlap(other, one) is do, (one, other)


def test_frames_are_whole_wherever_the_bytes_are_cut():
    data = (
        b'INFO {"a":1}\r\nPING\r\nMSG a.b 1 2\r\nhi\r\n'
        b"HMSG c 1 reply 18 20\r\nNATS/1.0\r\nk: v\r\n\r\nxy\r\n-ERR 'x'\r\n"
    )
    whole = FrameDecoder().feed(data)
    assert [one.kind for one in whole] == ["INFO", "PING", "MSG", "MSG", "-ERR"]
    assert (whole[2].payload, whole[3].reply, whole[3].payload) == (b"hi", "reply", b"xy")
    for cut in range(len(data)):
        decoder = FrameDecoder()
        assert decoder.feed(data[:cut]) + decoder.feed(data[cut:]) == whole


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"MSG a\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a 1 -1\r\n",
        b"HMSG a 1 9 3\r\n",
        b"MSG a 1 999999999999\r\n",
    ],
    ids=["http", "short", "no-number", "negative", "headers", "giant"],
)
def test_what_is_not_nats_is_refused(data):
    with pytest.raises(ProtocolError):
        FrameDecoder().feed(data)


def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(protocol, "_MAX_LINE_BYTES", 100)
    with pytest.raises(ProtocolError):
        FrameDecoder().feed(b"x" * 101)


def test_another_server_at_the_port_is_an_error_that_says_so(mosquitto):
    given = SOURCE | {"nats.servers": f"nats://127.0.0.1:{mosquitto.port}"}
    given |= {"nats.request.timeout": "500ms", "nats.retry.timeout": "1s"}
    with pytest.raises(RemoteError) as told, sink_task(NatsSink, given):
        pass
    assert told.value.code in {"nats.no_answer", "nats.unavailable"}  # it waits, or hangs up


def flows(given, stream):
    """Rows flow through a server, there and back."""
    given = {**given, "nats.stream": stream, "value.converter.schemas.enable": "false"}
    with sink_task(NatsSink, {**given, "nats.subject": stream}) as sink:
        sink.write([{"n": n} for n in range(2000)])
    with source_task(NatsSource, given) as source:
        assert [row["n"] for row in source.rows(2000)] == list(range(2000))


def refusal(given, stream):
    """The code of the error of a login."""
    with (
        pytest.raises(RemoteError) as told,
        sink_task(NatsSink, {**given, "nats.stream": stream, "nats.subject": stream}),
    ):
        pass
    return told.value.code


def test_tls_with_a_certificate_of_its_own_authority(tmp_path, stream):
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.sign("localhost", address="127.0.0.1")
    client_certificate, client_key = authority.sign("client")
    files = f'cert_file: "{certificate}", key_file: "{key}", ca_file: "{authority.ca}"'
    with NatsServer(tmp_path / "n") as server:
        server.add_stream(stream)
        server.stop()
        server.configure(f"tls {{ {files}, verify: true }}")
        server.start()
        given = server.keys | {
            "nats.servers": f"tls://127.0.0.1:{server.port}",
            "nats.tls.ca.file": str(authority.ca),
            "nats.tls.certificate.file": str(client_certificate),
            "nats.tls.key.file": str(client_key),
        }
        flows(given, stream)
        untrusting = {k: v for k, v in given.items() if k != "nats.tls.ca.file"}
        assert refusal(untrusting, stream) == "nats.tls"
        assert refusal(given | {"nats.tls.ca.file": "/none"}, stream) == "nats.tls_file"
        assert refusal(given | {"nats.tls.key.file": str(certificate)}, stream) == "nats.tls_file"
        server.stop()
        server.configure()
        server.start()
        assert refusal(given, stream) == "nats.tls"  # never a password in the clear


def test_a_wrong_password_is_an_error_of_credentials_without_it(nats, stream):
    given = nats.keys | {"nats.password": "wrong-secret", "nats.stream": stream}
    with pytest.raises(RemoteError) as told, sink_task(NatsSink, given):
        pass
    assert told.value.code == "nats.login"
    assert "wrong-secret" not in str(told.value)


def test_a_user_that_may_not_publish_or_read_is_an_error_of_credentials(own_nats, stream):
    own_nats.add_stream(stream)
    own_nats.stop()
    allowed = 'publish: ["$JS.API.STREAM.INFO.>"]'
    user = f'{{ user: writer, password: "secret-of-nats", permissions: {{ {allowed} }} }}'
    own_nats.configure(users=f"authorization {{ users = [ {user} ] }}")
    own_nats.start()
    given = own_nats.keys | {"nats.stream": stream}
    with (
        pytest.raises(RemoteError) as told,
        sink_task(NatsSink, given | {"nats.subject": stream}) as task,
    ):
        task.write([{"n": 1}])
    assert told.value.code == "nats.not_authorized"
    with pytest.raises(RemoteError) as told, source_task(NatsSource, given):
        pass
    assert told.value.code == "nats.not_authorized"
    assert "CONSUMER" in str(told.value)


def test_a_token_logs_in(own_nats, stream):
    own_nats.add_stream(stream)
    own_nats.stop()
    own_nats.configure(users='authorization { token: "secret-token" }')
    own_nats.start()
    given = {"nats.servers": own_nats.keys["nats.servers"]}
    # the streams are of the account without a name, as before
    flows(given | {"nats.token": "secret-token"}, stream)
    assert refusal(given | {"nats.token": "another"}, stream) == "nats.login"
    assert refusal(given, stream) == "nats.login"


def test_the_key_of_a_user_logs_in(own_nats, tmp_path, stream):
    own_nats.add_stream(stream)
    own_nats.stop()
    user, other = new_user(), new_user()
    own_nats.configure(users=f"authorization {{ users = [ {{ nkey: {user.public} }} ] }}")
    own_nats.start()
    file = tmp_path / "user.nk"
    given = {"nats.servers": own_nats.keys["nats.servers"], "nats.nkey.file": str(file)}
    file.write_text(f"{user.seed}\n")
    flows(given, stream)
    file.write_text(other.seed)
    assert refusal(given, stream) == "nats.login"
    changed = "A" if user.seed[9] != "A" else "B"
    for wrong in ("", "SUX", "é", user.public, user.seed[:9] + changed + user.seed[10:]):
        file.write_text(wrong)
        assert refusal(given, stream) == "nats.credentials"
    file.unlink()
    assert refusal(given, stream) == "nats.credentials"


def test_a_file_of_credentials_logs_in(tmp_path, stream):
    accounts = Accounts()
    with NatsServer(tmp_path / "n", users=accounts.configuration()) as server:
        file = tmp_path / "user.creds"
        given = {
            "nats.servers": server.keys["nats.servers"], "nats.credentials.file": str(file)
        }  # fmt: skip
        file.write_text(accounts.credentials())
        assert refusal(given, stream) == "nats.no_stream"  # who we are is known
        server.add_stream(stream, keys=given)
        flows(given, stream)
        file.write_text(Accounts().credentials())
        assert refusal(given, stream) == "nats.login"
        file.write_text(accounts.credentials().replace("BEGIN USER NKEY", ""))
        assert refusal(given, stream) == "nats.credentials"


def test_the_next_server_is_tried_when_one_does_not_answer(nats, stream):
    nats.add_stream(stream)
    both = f"nats://127.0.0.1:1,{nats.keys['nats.servers']}"
    flows(nats.keys | {"nats.servers": both}, stream)
