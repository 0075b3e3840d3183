"""A module made of a file's text, in the process that calls its functions."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import traceback
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, Final

from penstock.model.errors import ConfigError
from penstock.transform.functions.modules import Code

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
