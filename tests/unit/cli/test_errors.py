"""How errors reach a person."""

from penstock.cli.errors import print_error
from penstock.model.config_def import combined
from penstock.model.errors import ConfigError


def test_all_that_is_wrong_is_printed(capsys):
    names = ("one", "two", "three")
    error = combined(
        ConfigError("code.x", f"no {n}", fix=f"Drop {n}.", config_path=n) for n in names
    )
    print_error(error)
    printed = capsys.readouterr().err.splitlines()
    for name in names:
        at = printed.index(f"error: [code.x] no {name}")
        assert printed[at + 1 : at + 3] == [f"  at:  {name}", f"  fix: Drop {name}."]
    assert len(printed) == 9
