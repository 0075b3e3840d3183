"""What a node lets a connector reach, as a connector compares it."""

import os
from dataclasses import dataclass

import pytest

from penstock_connector import ConfigError, Source, key
from penstock_connector._config import keys_of, read_config
from penstock_connector._connectors import spec_of
from penstock_connector.reach import ANYWHERE, Reach, Reaching


@dataclass(frozen=True)
class Config(Reaching):
    """A file and a host."""

    file: str = key("", doc="A file.")
    host: str = key("", doc="A host.")

    def require_reach(self):
        self.reach.require_path(self.file, "file")
        if self.host:
            self.reach.require_host(self.host, "host")


@dataclass(frozen=True)
class Careless:
    """Compares nothing."""

    file: str = key("", doc="A file.")


def told(folders="*", hosts="*", **config):
    return read_config(Config, {**config, "reach.folders": folders, "reach.hosts": hosts})


def code_of(call, *args):
    try:
        call(*args)
    except ConfigError as error:
        return error.code
    return ""


def test_what_is_not_said_is_not_bounded():
    config, errors = read_config(Config, {"file": "/etc/shadow", "host": "db"})
    assert (errors, config.reach) == ([], ANYWHERE)
    assert "reach" not in keys_of(Config)


def test_what_is_named_and_outside_is_refused_by_its_key(tmp_path):
    config, errors = told(str(tmp_path), "db", file=str(tmp_path / "x"), host="db")
    assert (errors, config.reach.folders) == ([], (str(tmp_path),))
    for keys, code in (({"file": "/etc/shadow"}, "reach.folder"), ({"host": "x"}, "reach.host")):
        config, (error,) = told(str(tmp_path), "db", **keys)
        assert (config, error.code, error.config_path) == (None, code, *keys)
        assert "of the workers" in error.fix


def test_nothing_may_be_reached_where_nothing_is_named():
    assert told("", "*", file="/x")[1][0].code == "reach.folder"
    assert told("*", "", host="x")[1][0].code == "reach.host"


def test_a_connector_that_compares_nothing_says_so_and_takes_no_such_keys():
    class Keeps(Source[Config]):
        name = "keeps"

    class Does(Source[Careless]):
        name = "does"

    assert (spec_of(Keeps).enforces_reach, spec_of(Does).enforces_reach) == (True, False)
    _, errors = read_config(Careless, {"reach.folders": "/x"})
    assert [error.code for error in errors] == ["config.unknown_key"]


def test_a_folder_is_where_all_links_lead(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "inside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "to_in").symlink_to(tmp_path / "in")
    reach = Reach(folders=(str(tmp_path / "to_in"),))
    inside = ("in", "in/x", "to_in/x", "in/link/../in/x", "out/../in/x")
    outside = ("", "in/link/x", "in/../out/x", "inside/x", "in/missing/../../out")
    assert [p for p in inside if not reach.has_path(str(tmp_path / p))] == []
    assert [p for p in outside if reach.has_path(str(tmp_path / p))] == []


def test_what_is_opened_counts_and_not_its_name(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("x")
    reach = Reach(folders=(str(tmp_path / "in"),))
    (tmp_path / "in" / "a").hardlink_to(tmp_path / "secret")
    for name, allowed in (("in/a", True), ("secret", False)):
        fd = os.open(tmp_path / name, os.O_RDONLY)
        assert reach.has_opened(fd) is allowed
        os.close(fd)


def test_what_leads_through_processes_is_inside_of_no_folder(tmp_path):
    (tmp_path / "in").mkdir()
    reach = Reach(folders=(str(tmp_path / "in"),))
    for path in ("/proc/self/root/etc/shadow", "/proc/self/environ", "/proc/self/cwd"):
        assert not reach.has_path(path)
    assert not Reach(folders=("/",)).has_path("/proc/self/environ")
    assert Reach(folders=("/",)).has_path("/etc/shadow")


def test_a_pattern_or_a_template_is_inside_by_what_is_sure_of_it(tmp_path):
    reach = Reach(folders=(str(tmp_path / "in"),))
    for path in ("in/*.csv", "in/${topic}/x", "in/a${topic}", "in/x"):
        reach.require_template(str(tmp_path / path))
    for path in ("in*", "in${topic}/x", "*/x", "in/*/../../out/x", "${topic}"):
        assert code_of(reach.require_template, str(tmp_path / path)) == "reach.folder", path


@pytest.mark.parametrize(
    ("folder", "url", "code"),
    [
        ("s3://b/a", "s3://b/a/", ""),
        ("s3://b/a/", "s3://b/a/x", ""),
        ("s3://b", "s3://b", ""),
        ("s3://b", "s3://b/any", ""),
        ("s3://b/a", "s3://b/a", "reach.folder"),  # which means s3://b/ab, too
        ("s3://b/a", "s3://b/ab/", "reach.folder"),
        ("s3://b", "s3://bc/a", "reach.folder"),
        ("/data", "s3://data/", "reach.folder"),
    ],
)
def test_objects_are_inside_by_whole_parts_of_their_names(folder, url, code):
    assert code_of(Reach(folders=(folder,)).require_object, url) == code


@pytest.mark.parametrize(
    ("allowed", "host", "is_allowed"),
    [
        ("db.example", "DB.example", True),
        ("db.example", "db.example.", True),
        ("db.example", "xdb.example", False),
        ("*.a.example", "x.y.a.example", True),
        ("*.a.example", "a.example", False),
        ("*.a.example", "xa.example", False),
        ("10.1.0.0/16", "10.1.2.3", True),
        ("10.1.0.0/16", "10.2.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.0.0/16", "db.example", False),
        ("db.example", "10.1.2.3", False),
        ("fd00::/8", "[fd00::1]", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("10.1.0.0/16", "fd00::1", False),
    ],
)
def test_a_host_is_compared_by_its_name_or_as_an_address(allowed, host, is_allowed):
    assert Reach(hosts=(allowed,)).has_host(host) is is_allowed


def test_a_url_is_compared_by_its_host():
    reach = Reach(hosts=("db.example",))
    reach.require_url("https://user:x@db.example:8443/a")
    for url in ("http://evil/", "http://db.example@evil/", "no url", ""):
        assert code_of(reach.require_url, url) == "reach.host"
    ANYWHERE.require_url("no url")
