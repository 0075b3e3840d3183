"""Connectors of files keep to the folders that they are told, those of servers to the hosts."""

import json

import pyarrow as pa
import pytest

from penstock_builtin import CONNECTORS
from penstock_builtin.delta_sink import DeltaSink, DeltaSinkConfig
from penstock_builtin.file_sink import FileSinkConfig
from penstock_builtin.file_source import FileSourceConfig
from penstock_builtin.sftp_source import SftpSourceConfig
from penstock_builtin.verifiable import VerifiableSinkConfig, VerifiableSourceConfig
from penstock_connector import ConfigError
from penstock_connector._config import parse_config, read_config
from penstock_connector._connectors import spec_of
from penstock_connector.reach import Reach

SFTP = {"path": "/x", "sftp.user": "u", "sftp.password": "p", "sftp.host.key": "k"}
S3 = {"s3.endpoint": "http://store.example:9000"}


def found(config_type, folders="*", hosts="*", **config):
    """What is found of a configuration: codes and keys."""
    given = {key.replace("__", "."): value for key, value in config.items()}
    _, errors = read_config(config_type, {**given, "reach.folders": folders, "reach.hosts": hosts})
    return [(error.code, error.config_path) for error in errors]


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_connector_keeps_to_it(connector):
    assert spec_of(connector).enforces_reach


@pytest.mark.parametrize(
    ("config_type", "config", "path"),
    [
        (FileSourceConfig, {"file": "/etc/shadow"}, "file"),
        (FileSourceConfig, {"path": "{in}/a,/etc/*"}, "path"),
        (FileSourceConfig, {"path": "{in}/*/../../shadow"}, "path"),
        (FileSourceConfig, {"path": "/proc/self/environ"}, "path"),
        (FileSourceConfig, {"path": "s3://b/x"}, "path"),
        (FileSinkConfig, {"file": "/etc/cron.d/x"}, "file"),
        (FileSinkConfig, {"path": "/data/${topic}"}, "path"),
        (FileSinkConfig, {"path": "s3://b/x"}, "path"),
        (DeltaSinkConfig, {"path": "/data/${topic}"}, "path"),
        (VerifiableSinkConfig, {"ledger": "/etc/x.jsonl"}, "ledger"),
        (VerifiableSourceConfig, {"state__dir": "/etc", "prune": "true"}, "state.dir"),
        (SftpSourceConfig, {**SFTP, "sftp.host": "h", "sftp.key.file": "/root/.ssh/id"},
         "sftp.key.file"),
        (SftpSourceConfig, {**SFTP, "sftp.host": "h", "sftp.known.hosts": "/etc/shadow"},
         "sftp.known.hosts"),
    ],
)  # fmt: skip
def test_a_folder_outside_is_refused_by_its_key(tmp_path, config_type, config, path):
    config = {key: value.replace("{in}", str(tmp_path)) for key, value in config.items()}
    assert found(config_type, f"{tmp_path},s3://b/team", **config) == [("reach.folder", path)]
    assert found(config_type, **config) == []


@pytest.mark.parametrize(
    ("config_type", "config", "path"),
    [
        (FileSourceConfig, {**S3, "path": "s3://b/x"}, "s3.endpoint"),
        (FileSinkConfig, {**S3, "path": "s3://b/x"}, "s3.endpoint"),
        (SftpSourceConfig, {**SFTP, "sftp.host": "files.example"}, "sftp.host"),
    ],
)
def test_a_host_outside_is_refused_by_its_key(config_type, config, path):
    assert found(config_type, hosts="other.example", **config) == [("reach.host", path)]
    assert found(config_type, hosts="*.example", **config) == []


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ({"s3.credentials": "web-identity", "s3.role.arn": "r", "s3.token.file": "/t"},
         "s3.sts.endpoint"),
        ({"s3.credentials": "container", "s3.container.url": "http://169.254.170.2/x"},
         "s3.container.url"),
        ({"s3.credentials": "instance"}, "s3.credentials"),
        ({"s3.credentials": "profile"}, "s3.profile"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("config_type", [FileSourceConfig, FileSinkConfig])
def test_a_role_is_had_where_the_node_lets_it_be_asked_for(config_type, role, path):
    config = {**S3, "path": "s3://b/x/", **role}
    assert found(config_type, hosts="*.example", **config) == [("reach.host", path)]
    assert found(config_type, **config) == []


@pytest.mark.parametrize("config_type", [FileSourceConfig, FileSinkConfig])
def test_the_store_of_google_is_bounded_too(config_type):
    token = {
        "type": "service_account", "client_email": "x", "private_key": "x",
        "token_uri": "https://elsewhere/token",
    }  # fmt: skip
    config = {"path": "gs://b/x/"}
    assert found(config_type, hosts="*.example", **config) == [("reach.host", "gcs.endpoint")]
    assert found(config_type, "gs://b/y", **config) == [("reach.folder", "path")]
    google = "*.googleapis.com"
    assert found(config_type, "gs://b", google, **config) == []
    machine = {**config, "gcs.credentials": "instance"}
    assert found(config_type, hosts=google, **machine) == [("reach.host", "gcs.credentials")]
    account = {**config, "gcs.key": json.dumps(token)}
    assert found(config_type, hosts=google, **account) == [("reach.host", "gcs.key")]


def test_the_token_of_a_role_is_a_file_that_the_node_bounds():
    role = {"s3.credentials": "web-identity", "s3.role.arn": "r", "s3.token.file": "/etc/shadow"}
    config = {**S3, "path": "s3://b/x/", **role}
    outside = [("reach.folder", "s3.token.file")]
    assert found(FileSourceConfig, "s3://b,/data", **config) == outside
    assert found(FileSourceConfig, "s3://b,/etc", **config) == []


def bounded(config, folder):
    config.bounded_by(Reach(folders=(str(folder),)))
    return config


@pytest.fixture
def folders(tmp_path):
    """A folder that may be reached, and one that may not; in the first is a link to it."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "a").write_text("secret\n")
    return inside, outside


def test_a_link_that_a_pattern_finds_is_not_read(reading, folders):
    inside, outside = folders
    (inside / "a").symlink_to(outside / "a")
    config = bounded(FileSourceConfig(path=(f"{inside}/*",), tail=False), inside)
    with pytest.raises(ConfigError) as caught:
        reading(config).drain()
    assert caught.value.code == "reach.folder"


def test_roots_of_the_configuration_count_beside_it(reading, folders, tmp_path):
    inside, outside = folders
    (inside / "a").write_text("x\n")
    wide = FileSourceConfig(path=(f"{inside}/a",), tail=False, allowed_roots=(str(tmp_path),))
    assert reading(bounded(wide, inside)).drain() == [{"line": "x"}]
    narrow = FileSourceConfig(path=(f"{inside}/a",), tail=False, allowed_roots=(str(outside),))
    with pytest.raises(ConfigError) as caught:
        reading(bounded(narrow, inside)).drain()
    assert caught.value.code == "file.outside_roots"


def test_a_folder_that_a_link_leads_out_to_is_neither_made_nor_written_to(writing, folders):
    inside, outside = folders
    (inside / "t").symlink_to(outside)
    config = bounded(FileSinkConfig(path=f"{inside}/${{topic}}/new"), inside)
    with pytest.raises(ConfigError) as caught:
        writing(config).write(["x"], dataset="t")
    assert caught.value.code == "reach.folder"
    assert sorted(path.name for path in outside.iterdir()) == ["a"]


def test_a_table_outside_is_not_made(folders):
    inside, outside = folders
    (inside / "t").symlink_to(outside)
    sink = DeltaSink()
    sink.init(bounded(DeltaSinkConfig(path=f"{inside}/${{topic}}"), inside))
    sink.connect("g-0", 1)
    with pytest.raises(ConfigError) as caught:
        sink.apply_schema("t", pa.schema([("n", pa.int64())]), ())
    assert caught.value.code == "reach.folder"
    assert sorted(path.name for path in outside.iterdir()) == ["a"]


def test_what_is_inside_is_taken():
    config = parse_config(FileSourceConfig, {"file": "/data/a/x", "reach.folders": "/data/a"})
    assert config.roots.reach.folders == ("/data/a",)
