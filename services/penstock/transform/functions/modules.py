"""Finds the file of a function, in the folders that the node allows, and reads it.

Nothing is run here: the file is only parsed. So a configuration can neither name a file elsewhere
nor run one by being validated.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.util
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from penstock.model.config_def import did_you_mean
from penstock.model.errors import ConfigError

_NAME: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
_MOST_BYTES: Final = 1 << 20
"""Size of a file. It travels with the plan to every executor."""


@dataclass(frozen=True, slots=True)
class Code:
    """The text of a file, and the function in it."""

    file: str
    text: str
    function: str


def code_of(name: str, folders: Sequence[Path], path: str) -> Code:
    """Return the code of `module:function`.

    Raises:
        ConfigError: `transform.bad_function_name`, `transform.functions_off`,
            `transform.no_function_file`, `transform.bad_function_file`, `transform.no_function`.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError(
            "transform.bad_function_name",
            f"`{name}` does not name a function",
            fix="Write `module:function`; the module is a file in a folder of `functions.path`.",
            config_path=path,
        )
    if not folders:
        raise ConfigError(
            "transform.functions_off",
            "this node runs no functions: its setting `functions.path` names no folder",
            fix="Set `functions.path` of every worker to the folders with such files.",
            config_path=path,
        )
    file = _file(match[1], folders, path)
    code = Code(str(file), _text(file, path), match[2])
    _check(code, path)
    return code


def _file(module: str, folders: Sequence[Path], path: str) -> Path:
    relative = Path(*module.split(".")).with_suffix(".py")
    for folder in folders:
        file = (folder / relative).resolve()
        if file.is_file() and file.is_relative_to(folder.resolve()):
            return file
    raise ConfigError(
        "transform.no_function_file",
        f"no folder of `functions.path` has the file {relative}",
        fix="Put it into one of them, on every worker.",
        config_path=path,
    )


def _text(file: Path, path: str) -> str:
    try:
        raw = file.read_bytes()
        if len(raw) > _MOST_BYTES:
            raise _unreadable(file, f"it is larger than {_MOST_BYTES} bytes", path)
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, str(error), path) from error


def _check(code: Code, path: str) -> None:
    try:
        tree = ast.parse(code.text, code.file)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise _unreadable(Path(code.file), f"line {line}: {error}", path) from error
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if code.function not in names:
        raise ConfigError(
            "transform.no_function",
            f"{code.file} has no function `{code.function}`",
            fix=did_you_mean(code.function, names) if names else "Define it there.",
            config_path=path,
        )


def _unreadable(file: Path, why: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.bad_function_file",
        f"{file} cannot be read: {why}",
        fix="Correct the file.",
        config_path=path,
    )


_MOST_TEXT: Final = 500


class _Loader(importlib.abc.InspectLoader):
    """Loads a module from a text; its errors name the file that the text was read from."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def get_source(self, fullname: str) -> str:
        """Return the text."""
        del fullname
        return self._code.text

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled text."""
        del fullname
        return self.source_to_code(self._code.text, self._code.file)

    def is_package(self, fullname: str) -> bool:
        """Tell that it stands alone."""
        del fullname
        return False


@functools.lru_cache(maxsize=64)
def function_of(code: Code) -> Callable[[Any], Any]:
    """Return the function of a file, whose module is run once in this process.

    Raises:
        ConfigError: `transform.function_not_loaded`.
    """
    spec = importlib.util.spec_from_loader("penstock_function", _Loader(code), origin=code.file)
    if spec is None or spec.loader is None:
        raise AssertionError("a loader was given")
    module: ModuleType = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function: Callable[[Any], Any] = getattr(module, code.function)
    except Exception as error:
        raise ConfigError(
            "transform.function_not_loaded",
            f"{code.file} cannot be loaded: {words(error)} ({place(error, code)})",
            fix="Correct the file, or install what it imports where the executors run.",
            config_path="transforms",
        ) from error
    return function


def words(error: BaseException) -> str:
    """Return what an error says, cut."""
    return f"{type(error).__name__}: {error}"[:_MOST_TEXT]


def place(error: BaseException, code: Code) -> str:
    """Return the file and the line of it in which an error happened."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == code.file]
    return f"{code.file}, line {lines[-1]}" if lines else code.file
