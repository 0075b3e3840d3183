"""Secrets are in no `repr` and in no log call (invariant 9)."""

import ast
import re
from dataclasses import dataclass

import pytest

from penstock_connector import key
from support.checkout import name_of, product_files, syntax_of

SECRET = re.compile(r"(^|_)(password|passwd|secrets?|credentials?|api_?key|private_?key)$")
RAW = re.compile(r"(^|_)(config|configs|environ|headers|metadata)$")
LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
CANARY = "canary-5f1c"


def shown_fields(tree: ast.AST) -> list[str]:
    """Fields of dataclasses that are named as a secret and that `repr` would print."""
    return [
        f"line {field.lineno}: {owner.name}.{field.target.id} (write field(repr=False))"
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef) and prints_fields(owner)
        for field in owner.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if SECRET.search(field.target.id) and not is_hidden(field)
    ]


def prints_fields(owner: ast.ClassDef) -> bool:
    has_own = any(isinstance(n, ast.FunctionDef) and n.name == "__repr__" for n in owner.body)
    marks = [ast.unparse(mark) for mark in owner.decorator_list]
    return not has_own and any("dataclass" in m and "repr=False" not in m for m in marks)


def is_hidden(field: ast.AnnAssign) -> bool:
    value = ast.unparse(field.value) if field.value else ""
    kind = ast.unparse(field.annotation)
    if "choices=" in value or ast.unparse(field.target).endswith("_file"):
        return True  # which of some ways, or where: no secret itself
    marked = any(mark in value for mark in ("repr=False", "sensitive=True", "type='password'"))
    return marked or "Secret" in kind or kind == "bool"  # a key of that type has `repr=False`


def logged_secrets(tree: ast.AST) -> list[str]:
    """Log calls that are given a whole configuration or a secret."""
    return [
        f"line {call.lineno}: logs {word}"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and is_log(call.func)
        for value in [*call.args, *(k.value for k in call.keywords)]
        for word in whole_names(value)
        if SECRET.search(word) or RAW.search(word)
    ]


def is_log(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and called.attr in LOGS
        and "log" in ast.unparse(called.value).lower()
    )


def whole_names(value: ast.expr) -> list[str]:
    """The names that are logged as they are; `config.name` is one value, `config` is all of it."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.JoinedStr(values=parts):
            return [
                n for p in parts if isinstance(p, ast.FormattedValue) for n in whole_names(p.value)
            ]
        case ast.Call(args=args):
            return [n for arg in args for n in whole_names(arg)]
    return []


@pytest.mark.parametrize("rule", [shown_fields, logged_secrets])
def test_product_code_keeps_secrets(rule):
    found = {name_of(file): rule(syntax_of(file)) for file in product_files()}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (shown_fields, "@dataclass\nclass A:\n    password: str"),
        (shown_fields, "@dataclass(frozen=True)\nclass A:\n    db_credential: str = ''"),
        (logged_secrets, "log.info('x %s', config)"),
        (logged_secrets, "self._logger.debug(f'{task.config}')"),
        (logged_secrets, "logger.error('x', extra=dict(secrets))"),
    ],
)
def test_the_rules_go_red(rule, code):
    assert rule(ast.parse(code))


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (shown_fields, "@dataclass\nclass A:\n    password: str = field(repr=False)"),
        (shown_fields, "@dataclass\nclass A:\n    password: Secret"),
        (shown_fields, "class A:\n    password: str"),
        (logged_secrets, "log.info('x %s', config.name)"),
        (logged_secrets, "math.log(config)"),
    ],
)
def test_the_rules_leave_the_rest_alone(rule, code):
    assert rule(ast.parse(code)) == []


def test_a_sensitive_key_is_not_in_the_repr_of_a_configuration():
    @dataclass(frozen=True)
    class Config:
        url: str = key(doc="Where.", required=True)
        token: str = key(doc="What opens it.", sensitive=True, required=True)

    config = Config(url="http://x", token=CANARY)
    assert config.token == CANARY
    assert CANARY not in repr(config)
    assert CANARY not in str(config)
    assert "http://x" in repr(config)
