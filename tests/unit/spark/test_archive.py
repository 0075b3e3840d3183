"""The archive of classes: made once, used when it is there, never in the way."""

import pytest

from penstock.spark import archive, jvm
from penstock.spark.jvm import LOG_NAME, start_jvm
from penstock.spark.settings import EngineSettings

pytestmark = pytest.mark.usefixtures("no_kept_engine")


@pytest.mark.slow
def test_a_jvm_uses_the_archive_that_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr(jvm, "ARCHIVE_FOLDER", tmp_path / "it's a folder")
    assert jvm.archive_option() == ""
    file = archive.make_archive()
    assert [file] == list(file.parent.iterdir())
    assert str(file) in jvm.archive_option()
    settings = EngineSettings(
        master="local[1,1]",
        local_dir=tmp_path / "spark",
        extra={"spark.driver.extraJavaOptions": "-Xss2m -Xlog:class+load"},
    )
    start_jvm(settings).stop()
    loaded = (tmp_path / "spark" / LOG_NAME).read_text()
    assert loaded.count("shared objects file (top)") > 1000  # the layer that is ours


def test_an_archive_that_does_not_fit_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(jvm, "ARCHIVE_FOLDER", tmp_path)
    jvm.archive_file().write_bytes(b"no archive")
    assert jvm.archive_option()
    started = start_jvm(EngineSettings(master="local[1,1]", local_dir=tmp_path / "spark"))
    assert started.session.version
    started.stop()
