"""The code of a Python function: found in the folders that the node allows, checked, imported.

`load_code` only parses the file. So a configuration can neither name a file in another folder nor
run code by being validated. `import_function` runs the module, in an executor.
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
_MAX_BYTES: Final = 1 << 20
"""Size of a file. Its text is part of the plan that every executor receives."""


@dataclass(frozen=True, slots=True)
class Code:
    """The text of a file, and the name of a function in it."""

    file: str
    text: str
    function: str


def load_code(name: str, folders: Sequence[Path], path: str) -> Code:
    """Read and check the code of `module:function`, without running it.

    Raises:
        ConfigError: `transform.bad_function_name`, `transform.functions_off`,
            `transform.no_function_file`, `transform.bad_function_file`, `transform.no_function`.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError(
            "transform.bad_function_name",
            f"`{name}` is not the name of a function",
            fix="Write `module:function`; the module is a file in a folder of `functions.path`.",
            config_path=path,
        )
    if not folders:
        raise ConfigError(
            "transform.functions_off",
            "functions are off on this node: its setting `functions.path` is empty",
            fix="Set `functions.path` of every worker to the folders with the files of functions.",
            config_path=path,
        )
    file = _find_file(match[1], folders, path)
    code = Code(str(file), _read_file(file, path), match[2])
    _check_code(code, path)
    return code


def _find_file(module: str, folders: Sequence[Path], path: str) -> Path:
    relative = Path(*module.split(".")).with_suffix(".py")
    for folder in folders:
        file = (folder / relative).resolve()
        if file.is_file() and file.is_relative_to(folder.resolve()):
            return file
    raise ConfigError(
        "transform.no_function_file",
        f"no folder of `functions.path` has the file {relative}",
        fix="Put the file into one of them, on every worker.",
        config_path=path,
    )


def _read_file(file: Path, path: str) -> str:
    try:
        raw = file.read_bytes()
        if len(raw) > _MAX_BYTES:
            raise _unreadable(file, f"it is larger than {_MAX_BYTES} bytes", path)
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, str(error), path) from error


def _check_code(code: Code, path: str) -> None:
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


_MAX_ERROR_LENGTH: Final = 500


class _Loader(importlib.abc.InspectLoader):
    """Loads a module from a text. Stack traces name the file that the text was read from."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def get_source(self, fullname: str) -> str:
        """Return the text of the file."""
        return self._code.text

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text of the file."""
        return self.source_to_code(self._code.text, self._code.file)

    def is_package(self, fullname: str) -> bool:
        """Return False: a function's module has no submodules."""
        return False


@functools.lru_cache(maxsize=64)
def import_function(code: Code) -> Callable[[Any], Any]:
    """Return the function of a file. The module is run once in this process.

    Raises:
        ConfigError: `transform.function_not_loaded`.
    """
    spec = importlib.util.spec_from_loader("penstock_function", _Loader(code), origin=code.file)
    if spec is None or spec.loader is None:
        raise AssertionError("spec_from_loader keeps the loader")
    module: ModuleType = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function: Callable[[Any], Any] = getattr(module, code.function)
    except Exception as error:
        raise ConfigError(
            "transform.function_not_loaded",
            f"{code.file} cannot be loaded: {error_text(error)} ({error_location(error, code)})",
            fix="Correct the file, or install what it imports where the executors run.",
            config_path="transforms",
        ) from error
    return function


def error_text(error: BaseException) -> str:
    """Return the class and message of an error, truncated."""
    return f"{type(error).__name__}: {error}"[:_MAX_ERROR_LENGTH]


def error_location(error: BaseException, code: Code) -> str:
    """Return the file, and the line of it in which the error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == code.file]
    return f"{code.file}, line {lines[-1]}" if lines else code.file
