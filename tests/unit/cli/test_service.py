"""`penstock SERVICE --help`: everything that can be set, with what it takes and what it is else."""

import pytest

from penstock.cli.__main__ import main
from penstock.cluster.keys import KEYS
from penstock.model.config_def import ConfigKey, format_default, parse

ALL = sorted({key for keys in KEYS.values() for key in keys}, key=lambda key: key.name)


def told(service, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([service, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("service", KEYS)
def test_help_tells_type_default_and_choices_of_every_key(service, capsys):
    lines = {line.split()[0]: line for line in told(service, capsys).splitlines() if line.strip()}
    for key in KEYS[service]:
        takes = "|".join(key.choices) or key.type
        shown = f"{takes} = {format_default(key)} " if format_default(key) else f"{takes} "
        assert f" {shown}" in lines[key.name]
        assert lines[key.name].endswith(key.doc)
    assert "INFO" in lines["PENSTOCK_LOG_LEVEL"]
    assert ("spark.conf.*" in lines) is (service == "worker")


@pytest.mark.parametrize(
    "key", [key for key in ALL if format_default(key)], ids=lambda key: key.name
)
def test_a_default_is_written_as_a_file_may_have_it(key):
    assert parse((key,), {key.name: format_default(key)}) == {key.name: key.default}


def test_a_password_is_never_written():
    assert format_default(ConfigKey("p", "password", "hidden")) == ""
