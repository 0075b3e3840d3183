"""The image of the chart: it has the environment, and nothing of the checkout beside it."""

import re
import tomllib

from support.checkout import ROOT

DOCKERFILE = (ROOT / "deploy" / "kubernetes" / "Dockerfile").read_text(encoding="utf-8")
LET_IN = {
    line[1:]
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    if line.startswith("!")
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def copied(dockerfile):
    """What the last stage copies into layers of the image."""
    last = re.split(r"^FROM ", dockerfile, flags=re.MULTILINE)[-1]
    return re.findall(r"^(?:COPY|ADD) (.*)$", last, re.MULTILINE)


def test_no_layer_of_the_image_is_the_checkout_or_a_wheel():
    assert copied(DOCKERFILE) == []


def test_a_layer_with_the_checkout_goes_red():
    assert copied(DOCKERFILE.replace("USER 10001", "COPY . /src")) == [". /src"]


def test_a_build_is_given_what_the_wheel_is_made_of_and_nothing_else():
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {"pyproject.toml", PROJECT["project"]["readme"], *packages} == LET_IN
    assert "*" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def test_the_image_has_the_extras_that_the_units_have():
    """What the store and the topics may need, wherever a service runs."""
    extras = set(re.findall(r"\[([a-z0-9,]+)\]\"", DOCKERFILE))
    assert extras == {"avro,jdbc,postgresql,s3,sftp"}
    assert f"penstock[{extras.pop()}]" in (ROOT / "deploy" / "README.md").read_text("utf-8")
