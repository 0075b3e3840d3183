"""`penstock plugin new --language LANGUAGE NAME`: a project that builds, with tests and a manifest.

Python's template is below `templates`: files that end with `.tmpl` become files without it. In
names and texts NAME is the plugin's name, MODULE the same as an identifier, CLASS the same in
capitals and small letters, wherever these letters stand: no other word of a template may have them.
`gitignore` becomes `.gitignore`.

The templates of Go and Node are projects that build as they are, beside their SDK or example: all
of their files are copied, also those behind links, and NAME is replaced in files at the top.
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

TEMPLATES: Final = Path(__file__).parent / "templates"
_CHECKOUT: Final = Path(__file__).parents[3] / "connectors"
"""Where the templates of other languages are in a checkout; a wheel has them in `templates`."""

_SUFFIX: Final = ".tmpl"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_NAME_CHARACTERS: Final = 60


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("name", help="name of the plugin: lower-case letters, digits, hyphens")
    parser.add_argument("--language", choices=LANGUAGES, required=True)
    parser.add_argument("--into", type=Path, help="folder to create; default: the name")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Create the project."""
    folder = arguments.into or Path(arguments.name)
    files = create_project(arguments.language, arguments.name, folder)
    print(
        f"created {folder}: {len(files)} files; {folder}/README.md has the next steps",
        file=sys.stderr,
    )
    return 0


def create_project(language: str, name: str, folder: Path) -> list[Path]:
    """Create a project; return its files.

    Raises:
        ConfigError: `plugin.no_template`, `plugin.bad_name`, `plugin.folder_exists`.
    """
    template = _find_template(language)
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARACTERS:
        raise ConfigError(
            "plugin.bad_name",
            f"{name!r} is not a valid plugin name",
            fix="Begin with a lower-case letter; go on with lower-case letters, digits and single "
            f"hyphens, {_MAX_NAME_CHARACTERS} characters at most.",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            "plugin.folder_exists",
            f"{folder} exists, and is not an empty folder",
            fix="Choose another name, or another folder by `--into`.",
        )
    if language != "python":
        return _copy_template(template, name, folder)
    words = {"NAME": name, "MODULE": name.replace("-", "_"), "CLASS": _class_name(name)}
    files = []
    for source in _template_files(template):
        file = folder / _target_path(source.relative_to(template), words)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_fill(source.read_text(encoding="utf-8"), words), encoding="utf-8")
        files.append(file)
    return files


def _find_template(language: str) -> Path:
    for folder in (TEMPLATES / language, _CHECKOUT / language / "template"):
        if folder.is_dir():
            return folder
    raise ConfigError(
        "plugin.no_template",
        f"this installation has no template for {LANGUAGES.get(language, language)}",
        fix="Reinstall Penstock. The protocol alone is enough to write a plugin in any language.",
    )


def _copy_template(template: Path, name: str, folder: Path) -> list[Path]:
    shutil.copytree(template, folder, dirs_exist_ok=True)
    for file in folder.iterdir():
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace("NAME", name), encoding="utf-8")
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _template_files(template: Path) -> Iterator[Path]:
    yield from sorted(path for path in template.rglob(f"*{_SUFFIX}") if path.is_file())


def _target_path(path: Path, words: dict[str, str]) -> Path:
    name = path.name.removesuffix(_SUFFIX)
    name = ".gitignore" if name == "gitignore" else name
    return Path(_fill(str(path.with_name(name)), words))


def _fill(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
