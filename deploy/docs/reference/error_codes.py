"""The page of error codes, from the calls that make errors.

A code is found where an error is made: `ConfigError("config.missing", message, fix=…)`, a function
of the product that makes one of its parameters, and tables that turn the statuses of gRPC or codes
of another part into codes. What a program puts into a text at run time is `…` on the page.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reference.markdown import code, page, plain, table

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = (
    "services/penstock",
    "connectors/python/penstock_connector",
    "connectors/python/penstock_values",
    "connectors/python/penstock_converters",
    "connectors/builtin/penstock_builtin",
    "connectors/databases/penstock_databases",
    "connectors/kafka/penstock_kafka",
    "connectors/net/penstock_net",
    "connectors/amqp/penstock_amqp",
    "connectors/metrics/penstock_metrics",
    "connectors/analytics/penstock_analytics",
    "connectors/messaging/penstock_messaging",
    "connectors/search/penstock_search",
    "connectors/rocketmq/penstock_rocketmq",
)
"""What runs where rows move. The conformance kit has codes of its own, for authors of plugins."""

_GENERATED: Final = "services/penstock/api/"

CODE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")

CLASSES: Final[Mapping[str, str]] = {
    "RetriableError": "RETRIABLE",
    "ConfigError": "CONFIG",
    "AuthError": "AUTH",
    "DataError": "DATA",
    "SchemaError": "SCHEMA",
    "FencedError": "FENCED",
    "OffsetLostError": "OFFSET_LOST",
    "InternalError": "INTERNAL",
    "ConnectorError": "INTERNAL",
    "InvalidConverterError": "CONFIG",
    "PenstockError": "INTERNAL",
    "Problem": "DATA",  # of a value that a converter rejects
}
"""The class of a diagnostic, by what carries its code in services, in the SDK, in converters."""

_REACTIONS: Final = (
    ("RETRIABLE", "the task restarts with growing delays until it works"),
    ("CONFIG", "the task fails; correct the configuration, and it starts by itself"),
    ("AUTH", "the task fails; correct the credentials, then restart it"),
    ("DATA", "a row is rejected, within `errors.tolerance`; else the task fails"),
    ("SCHEMA", "the task fails; a schema change cannot be applied"),
    ("FENCED", "the task stops; another owner has a newer epoch"),
    ("OFFSET_LOST", "the task fails; the source has forgotten what comes next"),
    ("INTERNAL", "a defect of Penstock or of a connector: 3 restarts at most, then the task fails"),
)

_MAX_TEXTS: Final = 3
"""Messages and fixes of a code on the page. Some codes have fifty, all of one kind."""


@dataclass
class ErrorCode:
    """What is known of a code: its classes, messages and fixes, in the order of the files."""

    classes: dict[str, None] = field(default_factory=dict)
    messages: dict[str, None] = field(default_factory=dict)
    fixes: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Maker:
    """A function that makes an error: its class, and its parameters for code, message and fix."""

    error_class: str
    parameters: tuple[str, ...]
    code: str
    message: ast.expr | None
    fix: ast.expr | None


@dataclass(frozen=True)
class _Site:
    """A call that makes an error."""

    error_class: str
    code: ast.expr
    message: ast.expr | None
    fix: ast.expr | None


def write_page() -> str:
    """Return the page."""
    found = find_codes(_trees())
    areas: dict[str, list[str]] = defaultdict(list)
    for name in sorted(found):
        areas[name.partition(".")[0]].append(name)
    return page(
        "Error codes",
        "An error has a stable code, a class, a message and a fix: `[config.missing] message (at "
        "key) Fix: …`. The class decides what happens to a task. `…` stands for what is known only "
        "when the error occurs. A result of `penstock doctor` has a code and no class. "
        "What to do about codes of a cluster: [runbooks](../operate/runbooks/codes.md).",
        table(("class", "what happens"), ((code(name), text) for name, text in _REACTIONS)),
        *(
            f"## {area}\n\n"
            + table(
                ("code", "class", "message", "fix"),
                (_row(name, found[name]) for name in names),
            )
            for area, names in areas.items()
        ),
    )


def _row(name: str, error: ErrorCode) -> tuple[str, str, str, str]:
    return (
        code(name),
        ", ".join(error.classes),
        _joined(error.messages),
        _joined(error.fixes),
    )


def _joined(texts: Iterable[str]) -> str:
    listed = [plain(text) for text in texts if text.strip("… ")]
    more = len(listed) - _MAX_TEXTS
    return "<br>".join(listed[:_MAX_TEXTS] + ([f"({more} more)"] if more > 0 else []))


def _trees() -> Iterator[ast.Module]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if not file.relative_to(ROOT).as_posix().startswith(_GENERATED):
                yield ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def find_codes(trees: Iterable[ast.Module]) -> dict[str, ErrorCode]:
    """Return all codes that the files make."""
    modules = list(trees)
    classes = _error_classes(modules)
    # private functions are of their file, public ones of all
    makers = _makers(modules, classes, public=True)
    found: dict[str, ErrorCode] = defaultdict(ErrorCode)
    for module in modules:
        constants = _constants(module)
        local = {**makers, **_makers([module], classes, public=False)}
        for site in _sites(module, classes, local):
            for name in _codes(site.code, constants):
                _add(found[name], site, constants)
        for name, error_class, fix in _entries(module, classes):
            found[name].classes[error_class] = None
            found[name].fixes[fix] = None
    for name, origin in _renamed(modules, found):
        found[name].classes.update(found[origin].classes)
        found[name].messages.update(found[origin].messages)
        found[name].fixes.update(found[origin].fixes)
    return dict(found)


def _add(error: ErrorCode, site: _Site, constants: Mapping[str, str]) -> None:
    if site.error_class:
        error.classes[site.error_class] = None
    for texts, node in ((error.messages, site.message), (error.fixes, site.fix)):
        for text in _texts(node, constants):
            texts[text] = None


def _error_classes(modules: Iterable[ast.Module]) -> dict[str, str]:
    """Return the class of each exception, also of those that inherit it."""
    bases = {
        node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }
    found = dict(CLASSES)
    for _ in range(4):  # no exception is further away from its root
        for name, parents in bases.items():
            for parent in parents:
                if parent in found and name not in CLASSES:
                    found[name] = found[parent]
    return found


def _makers(
    modules: Iterable[ast.Module], classes: Mapping[str, str], *, public: bool
) -> dict[str, _Maker]:
    """Return the functions that make an error whose code is one of their parameters, and the
    classes whose methods make one with the code that `__init__` is given.
    """
    found = {}
    for module in modules:
        for node in ast.walk(module):
            is_meant = isinstance(node, ast.FunctionDef | ast.ClassDef) and (
                node.name.startswith("_") is not public and node.name not in classes
            )
            if is_meant and isinstance(node, ast.ClassDef):
                for site in _sites(node, classes, {}):
                    if ast.unparse(site.code) in {"self.code", "self._code"}:
                        found[node.name] = _Maker(
                            site.error_class, (), "code", site.message, site.fix
                        )
            if is_meant and isinstance(node, ast.FunctionDef):
                parameters = (*node.args.args, *node.args.kwonlyargs)
                names = tuple(one.arg for one in parameters if one.arg not in {"self", "cls"})
                for site in _sites(node, classes, {}):
                    if isinstance(site.code, ast.Name) and site.code.id in names:
                        found[node.name] = _Maker(
                            site.error_class, names, site.code.id, site.message, site.fix
                        )
    return found


def _sites(
    tree: ast.AST, classes: Mapping[str, str], makers: Mapping[str, _Maker], own: str = ""
) -> Iterator[_Site]:
    """Yield the calls that make errors. `own` is the class of the exception around them."""
    for node in ast.iter_child_nodes(tree):
        inner = classes.get(node.name, "") if isinstance(node, ast.ClassDef) else own
        if isinstance(node, ast.Call) and (site := _site(node, classes, makers, own)):
            yield site
        yield from _sites(node, classes, makers, inner)


def _site(
    call: ast.Call, classes: Mapping[str, str], makers: Mapping[str, _Maker], own: str
) -> _Site | None:
    name = ast.unparse(call.func).rpartition(".")[2]
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if name in makers:
        return _site_of_maker(call, makers[name], given)
    code_node = given.get("code") or (call.args[0] if call.args else None)
    if code_node is None:
        return None
    message = given.get("message") or (call.args[1] if len(call.args) > 1 else None)
    if name in classes:
        fix = given.get("fix") or (call.args[2] if len(call.args) > 2 else None)
        return _Site(classes[name], code_node, message, fix)
    if name == "__init__" and own:
        return _Site(own, code_node, message, given.get("fix"))
    if name == "Diagnostic":
        kind = given.get("error_class") or (call.args[2] if len(call.args) > 2 else None)
        return _Site(_class_name(kind), code_node, message, given.get("fix"))
    if "code" in given:  # results of `penstock doctor`, and functions that are given a code
        return _Site("", given["code"], None, given.get("fix"))
    return None


def _class_name(node: ast.expr | None) -> str:
    """Return the class that an expression such as `ErrorClass.DATA` names."""
    name = "" if node is None else ast.unparse(node).rpartition(".")[2]
    name = name.removeprefix("ERROR_CLASS_")
    return name if name in CLASSES.values() else ""


def _site_of_maker(call: ast.Call, maker: _Maker, given: Mapping[str, ast.expr]) -> _Site | None:
    values = {**dict(zip(maker.parameters, call.args, strict=False)), **given}
    if maker.code not in values:
        return None
    return _Site(
        maker.error_class,
        values[maker.code],
        _filled(maker.message, values),
        _filled(maker.fix, values),
    )


def _filled(node: ast.expr | None, values: Mapping[str, ast.expr]) -> ast.expr | None:
    return values.get(node.id, node) if isinstance(node, ast.Name) else node


def _entries(module: ast.Module, classes: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the entries of tables that turn a status into an error: `(AuthError, code, fix)`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Tuple) and len(node.elts) == 3:
            kind, name, fix = node.elts
            if ast.unparse(kind) in classes and isinstance(name, ast.Constant):
                text = fix.value if isinstance(fix, ast.Constant) else ""
                yield str(name.value), classes[ast.unparse(kind)], str(text)


def _renamed(
    modules: Iterable[ast.Module], found: Mapping[str, ErrorCode]
) -> list[tuple[str, str]]:
    """Return pairs of tables that turn a code into another one, as the store does with etcd's."""
    pairs = []
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    names = [one.value for one in (key, value) if isinstance(one, ast.Constant)]
                    if len(names) == 2 and names[0] in found and CODE.fullmatch(str(names[1])):
                        pairs.append((str(names[1]), str(names[0])))
    return pairs


def _constants(module: ast.Module) -> dict[str, str]:
    """Return the texts that a file gives names to."""
    found = {}
    for node in module.body:
        target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name):
            value = node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[target.id] = value.value
    return found


def _codes(node: ast.expr, constants: Mapping[str, str]) -> Iterator[str]:
    for text in _texts(node, constants):
        if CODE.fullmatch(text.removesuffix("…")):
            yield text


def _texts(node: ast.expr | None, constants: Mapping[str, str]) -> list[str]:
    """Return the texts that an expression may be, with `…` for what is computed."""
    match node:
        case None:
            return []
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name) if name in constants:
            return [constants[name]]
        case ast.IfExp():
            return _texts(node.body, constants) + _texts(node.orelse, constants)
        case ast.BoolOp():
            return [text for one in node.values for text in _texts(one, constants)]
        case ast.JoinedStr():
            parts = [
                one.value if isinstance(one, ast.Constant) else _value(one, constants)
                for one in node.values
            ]
            return [re.sub("…+", "…", "".join(map(str, parts)))]
        case ast.BinOp(op=ast.Add()):
            left, right = _texts(node.left, constants), _texts(node.right, constants)
            return ["".join(pair) for pair in zip(left or ["…"], right or ["…"], strict=False)]
        case _:
            return ["…"]


def _value(node: ast.expr, constants: Mapping[str, str]) -> str:
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
        return constants.get(node.value.id, "…")
    return "…"
