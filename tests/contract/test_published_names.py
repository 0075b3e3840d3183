"""Names that people write down: fault points and error codes are what was published, no more."""

import ast
import re

import pytest

from penstock.model import errors, faults
from support.checkout import name_of, product_files, syntax_of

CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
ERRORS = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.PenstockError)
}


def placed(tree: ast.AST) -> set[str]:
    """The fault points that a file passes."""
    return {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)
        if ast.unparse(call.func).split(".")[-1] in {"hit", "reach"}
        if isinstance(call.args[0].value, str)
    }


def codes(tree: ast.AST) -> list[str]:
    """The literal codes with which a file makes errors."""
    return [
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)
        if ast.unparse(call.func).split(".")[-1] in ERRORS | {"ConnectorError"}
        if isinstance(call.args[0].value, str)
    ]


def test_every_published_fault_point_is_somewhere_and_no_other():
    found = set().union(*(placed(syntax_of(file)) for file in product_files()))
    assert sorted(found - faults.POINTS.keys()) == [], "not published in penstock.model.faults"
    assert sorted(faults.POINTS.keys() - found) == [], "published, and nowhere in the product"


def test_every_error_code_is_dotted_and_lower_case():
    found = {name_of(file): codes(syntax_of(file)) for file in product_files()}
    assert sum(map(len, found.values())) > 50
    bad = {name: [c for c in all_ if not CODE.fullmatch(c)] for name, all_ in found.items()}
    assert {name: words for name, words in bad.items() if words} == {}


@pytest.mark.parametrize("code", ["offset", "Offset.old", "offset.", "offset.stale epoch"])
def test_the_rule_for_codes_goes_red(code):
    assert not CODE.fullmatch(codes(ast.parse(f"errors.DataError({code!r}, 'x')"))[0])
