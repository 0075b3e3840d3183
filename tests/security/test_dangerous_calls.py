"""Product code has no way to run what it was sent: no pickle, eval, exec, unsafe YAML, shell.

PySpark pickles the functions that it is given by itself; that is no call of ours. What is excepted
stands in `EXCEPTED` with its reason. The rule is read off the syntax tree, so a word in a comment
is not a finding.
"""

import ast

import pytest
import yaml

from penstock.pipeline_files.files import JsonValueLoader, TextLoader
from support.checkout import name_of, product_files, syntax_of

MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
CALLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "tempfile.mktemp",
    "yaml.load",
    "yaml.load_all",
    "yaml.unsafe_load",
    "yaml.full_load",
    "ssl._create_unverified_context",
}


EXCEPTED = {
    # an expression for each class of ours: nothing but names of its fields is in its text
    "services/penstock/wire/codec.py": ["eval"],
    # a function made of a table's widths: nothing but whole numbers of ours is in its text
    "connectors/databases/penstock_databases/mysql_cdc/rows.py": ["exec"],
    # its loaders are SafeLoader with fewer types, which the test below sees
    "services/penstock/pipeline_files/files.py": ["yaml.load"],
}


def findings(tree: ast.AST) -> list[str]:
    return [f"line {node.lineno}: {word}" for node in ast.walk(tree) for word in danger(node)]


def danger(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names if name.name.split(".")[0] in MODULES]
        case ast.ImportFrom(module=str(module), names=names):
            whole = {f"{module}.{name.name}" for name in names}
            return [module] if module.split(".")[0] in MODULES else sorted(whole & CALLS)
        case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
            return [name]
        case ast.Call(func=ast.Attribute() as called, keywords=keywords):
            shell = [k for k in keywords if k.arg == "shell" and not is_false(k.value)]
            name = ast.unparse(called)
            return [name] if name in CALLS else ["shell=True" for _ in shell]
    return []


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_product_code_has_no_dangerous_call():
    found = {name_of(file): findings(syntax_of(file)) for file in product_files()}
    assert len(found) > 50
    words = {name: [one.split(": ")[1] for one in words] for name, words in found.items() if words}
    assert words == EXCEPTED
    assert all(issubclass(loader, yaml.SafeLoader) for loader in (TextLoader, JsonValueLoader))


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "import pickle as safe",
        "from dill import loads",
        "from os import system",
        "eval('1')",
        "exec(code)",
        "yaml.load(text, Loader=yaml.Loader)",
        "subprocess.run('ls', shell=True)",
        "subprocess.Popen('ls', shell=flag)",
        "await_ = asyncio.create_subprocess_shell('ls')",
        "os.system('ls')",
        "tempfile.mktemp()",
    ],
)
def test_the_rule_goes_red(code):
    assert findings(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "yaml.safe_load(text)",
        "re.compile('x')",
        "subprocess.run(['ls'], shell=False)",
        "# eval('1')",
        "model.eval()",
    ],
)
def test_the_rule_leaves_the_rest_alone(code):
    assert findings(ast.parse(code)) == []
