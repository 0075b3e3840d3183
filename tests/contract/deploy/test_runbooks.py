"""The runbooks: each command in them can be typed, each code and each line of a log exists.

`etcdctl` is run against a real etcd, page by page. Calls by `grpcurl` are checked against the
protocol, `penstock` against its own parser, `systemctl` and `journalctl` against the units. What is
left (`psql`, `kubectl`, `pg_dump`, `pg_restore`) is only read as words of a shell.
"""

import ast
import re
import shlex
import subprocess

import pytest
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_health.v1 import health_pb2

from penstock.api.config.v1 import config_service_pb2
from penstock.api.offset.v1 import offset_service_pb2
from penstock.api.scheduler.v1 import scheduler_service_pb2
from penstock.api.worker.v1 import worker_service_pb2
from penstock.cli.__main__ import command_parser
from penstock.cluster.keys import KEYS
from support.chart import objects
from support.checkout import ROOT, product_files, syntax_of
from support.etcd import EtcdServers
from support.readme import blocks

RUNBOOKS = ROOT / "deploy" / "docs" / "pages" / "operate" / "runbooks"
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted(RUNBOOKS.glob("*.md"))}
BLOCKS = {name: list(blocks(text, name)) for name, text in PAGES.items()}
COMMANDS = [
    (block, command) for found in BLOCKS.values() for block in found for command in block.commands()
]
SERVED = (
    health_pb2, config_service_pb2, offset_service_pb2, scheduler_service_pb2, worker_service_pb2,
)  # fmt: skip
READ_ONLY = {"psql", "kubectl", "pg_dump", "pg_restore"}
SHELL = {"export", "for", "grown", "revision"}
UNITS = {file.name for file in (ROOT / "deploy" / "systemd").glob("penstock*")}
CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
OPERATED = ("etcd", "cluster", "member", "discovery", "store", "scheduler", "backup", "restore")
"""What the codes of those who run a cluster begin with; each of these is on a page."""

OTHER_KEYS = {"restart.max", "tasks.max", "flush.interval", "batch.max.rows"}
"""Keys of connectors that the pages name."""


def made_of(tree):
    """The codes with which a file makes errors, and those that it turns others into."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _makes(node.func):
            yield from _codes(node.args[:1])
        elif isinstance(node, ast.Dict):
            yield from _codes(node.values)
        elif isinstance(node, ast.keyword) and node.arg == "code":
            yield from _codes([node.value])


def _makes(function):
    name = ast.unparse(function).split(".")[-1]
    return name == "__init__" or name.endswith("Error") or name == "Diagnostic"


def _codes(nodes):
    texts = (one.value for node in nodes for one in ast.walk(node) if isinstance(one, ast.Constant))
    return (text for text in texts if isinstance(text, str) and CODE.fullmatch(text))


CODES = {code for file in product_files() for code in made_of(syntax_of(file))}
SOURCE = "\n".join(file.read_text(encoding="utf-8") for file in product_files())
PLAIN = re.sub(r'"\s*\n\s*f?"', "", SOURCE)
"""The product's text, with literals that go on in the next line joined."""


def calls():
    for block, command in COMMANDS:
        words = shlex.split(command)
        if words[0] == "grpcurl":
            yield pytest.param(words, id=f"{block}-{words[-1].rpartition('.')[2]}")


def check_call(words):
    """Check a call: the service is served, has the method, and takes the message."""
    words = list(words[1:])
    assert words.pop(0) == "-plaintext"
    data = "{}"
    if words[0] == "-d":
        data, words = words[1], words[2:]
    address, path = words
    assert address in {"$CONFIG", "$OFFSET", "$SCHEDULER", "127.0.0.1:7400"}
    service, _, method = path.partition("/")
    pool = descriptor_pool.Default()
    served = {name for file in SERVED for name in _services(file)}
    assert service in served, f"nobody serves {service}"
    found = pool.FindServiceByName(service).FindMethodByName(method)
    json_format.Parse(data, message_factory.GetMessageClass(found.input_type)())
    owner = {"$CONFIG": "config", "$OFFSET": "offset", "$SCHEDULER": "scheduler"}.get(address)
    if owner and not service.startswith("grpc."):
        assert f".{owner}." in service, f"{address} does not serve {service}"


def _services(file):
    return [service.full_name for service in file.DESCRIPTOR.services_by_name.values()]


@pytest.mark.parametrize("words", list(calls()))
def test_every_call_can_be_made(words):
    check_call(words)


_SCHEDULER = "penstock.api.scheduler.v1.SchedulerService"


@pytest.mark.parametrize(
    "call",
    [
        f"""grpcurl -plaintext "$SCHEDULER" {_SCHEDULER}/GetClusters""",
        f"""grpcurl -plaintext -d '{{"worker": "w"}}' "$SCHEDULER" {_SCHEDULER}/DrainWorker""",
        f"""grpcurl -plaintext "$CONFIG" {_SCHEDULER}/GetCluster""",
    ],
)
def test_a_call_that_cannot_be_made_goes_red(call):
    with pytest.raises((AssertionError, KeyError, json_format.ParseError)):
        check_call(shlex.split(call))


@pytest.mark.parametrize("name", [n for n in PAGES if "etcdctl" in PAGES[n]])
def test_every_command_of_etcdctl_works(name, tmp_path):
    scripts = [
        "\n".join(block.commands())
        for block in BLOCKS[name]
        if all(words.split()[0] != "systemctl" for words in block.commands())
    ]
    lines = [
        line
        for script in scripts
        for line in script.splitlines()
        if "etcdctl" in line or line.startswith(("grown", "revision", "export"))
    ]
    with EtcdServers(tmp_path / "servers") as servers:
        script = "\n".join(lines).replace("127.0.0.1:2379", servers.endpoints[0])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "ETCDCTL_API": "3",
                "ETCDCTL_ENDPOINTS": servers.endpoints[0],
                "CLUSTER": "default",
                "grown": "3",
                "CONFIG": "-", "OFFSET": "-", "SCHEDULER": "-",
            },
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    assert "Error" not in done.stderr
    assert lines


def parses(words):
    """Return whether the command line takes the words; `--version` ends it well."""
    try:
        command_parser(words).parse_args(words)
    except SystemExit as ended:
        return ended.code == 0
    return True


@pytest.mark.parametrize("line", ["workers drains w1", "restore", "backups x"])
def test_a_command_of_penstock_that_does_not_exist_goes_red(line):
    assert not parses(line.split())


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=lambda one: str(one)[:60])
def test_every_command_is_of_a_program_that_is_known_here(block, command):
    words = shlex.split(command, comments=True)
    program = words[0].partition("=")[0]
    if program == "penstock":
        assert parses(words[1:]), f"{block}: {command}"
    elif program in {"systemctl", "journalctl"}:
        (unit,) = (word for word in words if word.startswith("penstock"))
        assert re.sub(r"@[a-z0-9-]+$", "@.service", unit) in UNITS, f"{block}: no unit {unit}"
    else:
        assert program in READ_ONLY | SHELL | {"etcdctl", "grpcurl"}, f"{block}: {program}"


WORKLOADS = {f"{one['kind'].lower()}/{one['metadata']['name']}" for one in objects("default")}
"""Of `helm install shop`, as the README has it."""


@pytest.mark.parametrize("name", [n for n in PAGES if "kubectl rollout" in PAGES[n]])
def test_what_is_rolled_out_is_in_the_chart(name):
    commands = [command.split() for block in BLOCKS[name] for command in block.commands()]
    rolled = {words[3] for words in commands if words[:2] == ["kubectl", "rollout"]}
    assert rolled
    assert rolled <= WORKLOADS


def named(text):
    """The codes that a page names: dotted words in code quotes that begin as codes do."""
    areas = {code.partition(".")[0] for code in CODES}
    words = (word for quoted in re.findall(r"`([^`\n]+)`", text) for word in quoted.split())
    return {w for w in words if CODE.fullmatch(w) and w.partition(".")[0] in areas}


KNOWN = CODES | OTHER_KEYS | {key.name for keys in KEYS.values() for key in keys}


@pytest.mark.parametrize("name", PAGES)
def test_every_code_that_is_named_exists(name):
    assert named(PAGES[name]) - KNOWN == set()


def test_a_code_that_does_not_exist_goes_red():
    assert named("see `etcd.unreachable` and `etcd.gone`") - KNOWN == {"etcd.gone"}


def test_every_code_of_the_cluster_is_on_a_page():
    told = set().union(*(named(text) for text in PAGES.values()))
    operated = {code for code in CODES if code.partition(".")[0] in OPERATED}
    assert operated - told == set()


@pytest.mark.parametrize("name", PAGES)
def test_every_line_of_a_log_that_is_quoted_is_written_somewhere(name):
    quoted = re.findall("“([^”]+)”", PAGES[name])
    assert [line for line in quoted if line not in PLAIN] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name):
    for target in re.findall(r"\]\((?!http)([^)]+)\)", PAGES[name]):
        page, _, place = target.partition("#")
        text = PAGES[page or name]
        heads = {_anchor(line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
        assert not place or place in heads, f"{name}: {target}"


def _anchor(head):
    return re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"README.md", "codes.md"}))
def test_every_symptom_has_a_diagnosis_and_a_remedy(name):
    for section in re.split(r"^## ", PAGES[name], flags=re.MULTILINE)[1:]:
        places = [section.find(f"**{part}.**") for part in ("Symptom", "Diagnosis", "Remedy")]
        assert -1 < places[0] < places[1] < places[2], section.splitlines()[0]
