"""The systemd units: systemd takes them, and they let a worker drain."""

import configparser
import re
import shutil
from pathlib import Path

import pytest

from penstock.cluster.keys import COMMON, KEYS, PREFIX
from penstock.cluster.settings import instance_settings
from penstock.model.config_def import parse_duration
from support.checkout import ROOT
from support.units import INSTANCES, SERVICES, UNITS, said, systemd, taken

VARIABLES = {PREFIX + key.name.upper().replace(".", "_") for keys in KEYS.values() for key in keys}
DRAIN = next(key.default for key in COMMON if key.name == "drain.timeout")
VARIABLE = re.compile(r"\bPENSTOCK_[A-Z][A-Z_]*[A-Z]\b")
OF_PROCESSES = {
    "PENSTOCK_LOG_LEVEL", "PENSTOCK_VENV", "PENSTOCK_PYTHON",
    "PENSTOCK_CREDENTIAL", "PENSTOCK_CONNECT_CREDENTIAL", "PENSTOCK_CONNECT_CA", "PENSTOCK_SERVER",
}  # fmt: skip
"""Variables that are no keys of services."""


class Unit(configparser.RawConfigParser):
    """A unit file, whose options keep their case; a repeated one is a list of lines."""

    def __init__(self, file: Path) -> None:
        super().__init__(strict=False, dict_type=_Repeated, empty_lines_in_values=False)
        self.optionxform = str
        self.read(file)


class _Repeated(dict):
    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def service(unit):
    return dict(Unit(UNITS / unit)["Service"])


@pytest.mark.parametrize(("unit", "name"), INSTANCES)
def test_systemd_takes_the_units(unit, name):
    """By a digest of the units, which is only written when `systemd-analyze verify` says nothing
    about them. Where there is systemd, it looks once more.
    """
    assert taken(UNITS), "PYTHONPATH=tests python -m support.units"
    if systemd() is not None:
        assert said(UNITS, unit, name) == ""


@pytest.mark.parametrize(
    "change",
    [("KillMode=mixed", "KillMode=polite"), ("TimeoutStopSec=", "TimeoutStopSek=")],
)
def test_a_unit_that_systemd_does_not_understand_goes_red(change, tmp_path):
    """By the digest everywhere; where there is systemd, by what it says, too."""
    units = shutil.copytree(UNITS, tmp_path / "units")
    worker = units / "penstock-worker@.service"
    worker.write_text(worker.read_text().replace(*change))
    assert not taken(units)
    if systemd() is not None:
        assert said(units, worker.name, "w1")


@pytest.mark.parametrize("unit", SERVICES)
def test_a_service_is_given_the_time_to_drain_and_is_started_again(unit):
    options = service(unit)
    phases = 2 if "worker" in unit else 1  # tasks, then calls
    assert parse_duration(f"{options['TimeoutStopSec']}s") >= phases * DRAIN + 15
    # a signal to the JVM would take Spark from under the drain
    assert options["KillMode"] == "mixed"
    assert options["Restart"] == "always"
    assert Unit(UNITS / unit)["Unit"]["StartLimitIntervalSec"] == "0"


@pytest.mark.parametrize("unit", SERVICES)
def test_a_service_may_do_nothing_that_it_need_not(unit):
    options = service(unit)
    assert options["CapabilityBoundingSet"] == ""
    assert options["ProtectSystem"] == "strict"
    assert options["User"] == "penstock"
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome"):
        assert options[name] == "yes", name
    assert options["UMask"] == "0077"
    assert "EnvironmentFile" in options


def test_the_units_run_what_the_command_has():
    assert service("penstock@.service")["ExecStart"].endswith("bin/penstock %i")
    assert service("penstock-worker@.service")["ExecStart"].endswith("bin/penstock worker")
    assert {"config", "offset", "scheduler", "worker", "gateway"} == KEYS.keys()


def example():
    lines = (UNITS / "penstock.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("name", KEYS)
def test_a_service_takes_the_example(name):
    assert instance_settings(name, {}, example()).etcd.endpoints == ("127.0.0.1:2379",)


def test_workers_of_the_units_share_their_topics_and_may_write_them():
    """Each has a state folder of its own, where topics would be that no other worker sees."""
    unit = Unit(UNITS / "penstock-worker@.service")
    places = {
        instance_settings("worker", {"state.dir": f"/var/lib/penstock/{name}"}, example())
        .worker()
        .topics_dir
        for name in ("w1", "w2")
    }
    assert places == {"/srv/penstock/topics"}
    assert [f"-{place}" for place in places] == unit["Service"]["ReadWritePaths"].split()
    assert places == {unit["Unit"]["RequiresMountsFor"]}


def test_the_user_that_owns_the_topics_has_one_number_on_all_machines():
    lines = (UNITS / "sysusers.conf").read_text(encoding="utf-8").splitlines()
    ((kind, name, number, *_),) = (line.split() for line in lines if not line.startswith("#"))
    assert (kind, name) == ("u", service("penstock-worker@.service")["User"])
    assert 201 <= int(number) <= 998, "what systems give out by themselves begins at both ends"


def named(text):
    return set(VARIABLE.findall(text))


PAGES = ROOT / "deploy/docs/pages"
OTHERS = (PAGES / "reference", PAGES / "connectors")
"""Generated from the code; and what plugins are given, which are no services."""

FILES = [
    file
    for file in sorted((ROOT / "deploy").rglob("*"))
    if file.is_file()
    and not any(file.is_relative_to(folder) for folder in OTHERS)
    and named(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_variable_that_is_named_is_one(file):
    assert named(file.read_text(encoding="utf-8")) <= VARIABLES | OF_PROCESSES


def test_a_misspelt_variable_goes_red():
    assert named("PENSTOCK_ETCD_ENDPOINT=x") - VARIABLES == {"PENSTOCK_ETCD_ENDPOINT"}
