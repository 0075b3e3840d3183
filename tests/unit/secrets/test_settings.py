"""Kafka Connect's keys of providers; nothing is allowed by default."""

import asyncio

import pytest

from penstock.model.errors import ConfigError
from penstock.secrets.provider_settings import create_secrets, parse_provider_settings


def settings(names, **params):
    config = {f"config.providers.{key.replace('__', '.')}": v for key, v in params.items()}
    return parse_provider_settings(names, config)


def test_kafka_connects_classes_and_parameters_are_ours(tmp_path):
    (tmp_path / "a.properties").write_text("key=value\n")
    made = settings(
        ["files"],
        files__class="org.apache.kafka.common.config.provider.FileConfigProvider",
        files__param__allowed__paths=f"/nowhere,{tmp_path}",
    )
    secrets = create_secrets(made)
    resolved = asyncio.run(secrets.resolve({"a": f"${{files:{tmp_path}/a.properties:key}}"}))
    assert (dict(resolved.config), resolved.reference_keys) == ({"a": "value"}, {"a"})


def test_a_provider_without_a_class_is_what_its_name_says():
    (made,) = settings(["env"], env__param__allowlist__pattern="DB_.*")
    assert made.kind == "env"


@pytest.mark.parametrize(
    ("names", "params", "code", "path"),
    [
        (["file"], {}, "config.missing", "config.providers.file.param.allowed.paths"),
        (["env"], {}, "config.missing", "config.providers.env.param.allowlist.pattern"),
        (["flie"], {}, "secrets.unknown_provider", "config.providers.flie.class"),
        (["a"], {"a__class": "x.Y"}, "secrets.unknown_provider", "config.providers.a.class"),
        ([], {"file__class": "file"}, "secrets.unknown_provider", "config.providers.file.class"),
        (
            ["env"],
            {"env__param__allowlist__pattern": "("},
            "config.bad_pattern",
            "config.providers.env.param.allowlist.pattern",
        ),
        (
            ["dir"],
            {"dir__param__alowed__paths": "/a"},
            "config.unknown_key",
            "config.providers.dir.param.alowed.paths",
        ),
        (["dir"], {"dir__paths": "/a"}, "config.unknown_key", "config.providers.dir.paths"),
        (["vault"], {}, "config.missing", "config.providers.vault.param.address"),
    ],
)
def test_what_is_wrong_is_told_by_its_key(names, params, code, path):
    with pytest.raises(ConfigError) as caught:
        settings(names, **params)
    told = [caught.value, *getattr(caught.value, "errors", ())]
    assert (code, path) in [(e.code, e.diagnostic.config_path) for e in told]


def test_settings_do_not_show_their_secrets():
    (made,) = settings(["vault"], vault__param__address="https://v", vault__param__token="hunter2")
    assert "hunter2" not in repr(made)
