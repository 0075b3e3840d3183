"""`penstock plugin new --language LANGUAGE NAME`: a project that builds, has tests and a manifest.

Python's template is below `templates`: files that end with `.tmpl` become files without it. In
names and texts NAME is the plugin's name, MODULE the same as an identifier, CLASS the same in
capitals and small letters, wherever these letters stand: no other word of a template may have them.
`gitignore` becomes `.gitignore`.

Those of Go and Node are projects that build as they are, beside their SDK or example: everything is
copied, what links lead to as well, and NAME is filled in in files at the top.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.model.errors import ConfigError

LANGUAGES: Final = {"python": "Python", "go": "Go", "node": "Node"}
"""Languages that a project may be in."""

TEMPLATES: Final = Path(__file__).parent / "templates"
_CHECKOUT: Final = Path(__file__).parents[3] / "connectors"
"""Where the projects of other languages are in a checkout; a wheel has them among the templates."""

_SUFFIX: Final = ".tmpl"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MOST_CHARACTERS: Final = 60


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the word."""
    parser.add_argument("name", help="name of the plugin: small letters, digits, hyphens")
    parser.add_argument("--language", choices=LANGUAGES, required=True)
    parser.add_argument("--into", type=Path, help="folder to make; default: the name")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the word."""
    folder = arguments.into or Path(arguments.name)
    files = make(arguments.language, arguments.name, folder)
    print(f"made {folder}: {len(files)} files; {folder}/README.md says what next", file=sys.stderr)
    return 0


def make(language: str, name: str, folder: Path) -> list[Path]:
    """Make a project; return its files.

    Raises:
        ConfigError: `plugin.no_template`, `plugin.bad_name`, `plugin.folder_exists`.
    """
    template = _template(language)
    if not _NAME.fullmatch(name) or len(name) > _MOST_CHARACTERS:
        raise ConfigError(
            "plugin.bad_name",
            f"{name!r} is no name for a plugin",
            fix="Begin with a small letter; go on with small letters, digits and single hyphens, "
            f"{_MOST_CHARACTERS} characters at most.",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            "plugin.folder_exists",
            f"{folder} is there already, and not empty",
            fix="Choose another name, or another folder by `--into`.",
        )
    if language != "python":
        return _copied(template, name, folder)
    words = {"NAME": name, "MODULE": name.replace("-", "_"), "CLASS": _class(name)}
    made = []
    for source in _sources(template):
        target = folder / _target(source.relative_to(template), words)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_filled(source.read_text(encoding="utf-8"), words), encoding="utf-8")
        made.append(target)
    return made


def _template(language: str) -> Path:
    for folder in (TEMPLATES / language, _CHECKOUT / language / "template"):
        if folder.is_dir():
            return folder
    raise ConfigError(
        "plugin.no_template",
        f"there is no template for {LANGUAGES.get(language, language)} in this installation",
        fix="Install Penstock anew. A plugin in any language may be written by the protocol alone.",
    )


def _copied(template: Path, name: str, folder: Path) -> list[Path]:
    shutil.copytree(template, folder, dirs_exist_ok=True)
    for file in folder.iterdir():
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace("NAME", name), encoding="utf-8")
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _sources(template: Path) -> Iterator[Path]:
    yield from sorted(path for path in template.rglob(f"*{_SUFFIX}") if path.is_file())


def _target(path: Path, words: dict[str, str]) -> Path:
    name = path.name.removesuffix(_SUFFIX)
    name = ".gitignore" if name == "gitignore" else name
    return Path(_filled(str(path.with_name(name)), words))


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _class(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
