"""`jmx-source` and a real JVM with Jolokia: samples, what gives none, and what is said of it."""

import json
import re
from pathlib import Path

import pytest
import yaml

from penstock_connector import AuthError, ConfigError, DataError, RetriableError
from penstock_connector._config import parse_config, read_config
from penstock_connector.testing import source_task
from penstock_kit.testing import wait_until
from penstock_metrics import JmxSource
from penstock_metrics.jmx_source.mbeans import parse_object_name, parse_reads
from support.certificates import Authority
from support.jolokia import PASSWORD, JolokiaJvm
from support.processes import PLAIN
from support.web import Reply
from system.pipelines import Pipeline

pytestmark = pytest.mark.timeout(300)

README = Path(__file__).parent.parent / "README.md"
ABOUT = {"up", "scrape_duration_seconds", "scrape_samples_scraped", "jmx_reads_failed"}
SHOP = 'shop:type=Orders,name="a,b \\"c\\""'


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    """A JVM with an MBean of each kind of value."""
    with JolokiaJvm(tmp_path_factory.mktemp("jvm")) as one:
        one.register(SHOP)
        one.register("shop:type=Orders,name=second")
        yield one


def config(jvm, mbeans, **more):
    given = jvm.keys | {"mbeans": mbeans, "scrape.interval": "1h"}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def scraped(jvm, mbeans, **more):
    """The samples of one scrape, and those about it."""
    with source_task(JmxSource, config(jvm, mbeans, **more)) as task:
        rows = task.rows(4)
    about = {row["name"]: row["value"] for row in rows if row["name"] in ABOUT}
    return [row for row in rows if row["name"] not in ABOUT], about


def labels_of(row):
    return {name: value for name, value in row["labels"] if name not in {"job", "instance"}}


def test_all_attributes_of_an_mbean_that_are_numbers_are_samples(jvm):
    rows, about = scraped(jvm, SHOP)
    assert about["up"] == 1
    assert about["jmx_reads_failed"] == 0
    assert {labels_of(row)["name"] for row in rows} == {'a,b "c"'}
    assert {labels_of(row)["type"] for row in rows} == {"Orders"}
    values = {row["name"]: row["value"] for row in rows}
    assert values == {
        "shop_Count": 12, "shop_Open": 1, "shop_Large": 2.0**52,
        "shop_Stock_pears": 4, "shop_Stock_red_apples": 3,
    }  # fmt: skip
    assert dict(rows[0]["labels"])["instance"] == f"localhost:{jvm.port}"


def test_a_named_attribute_without_a_value_now_is_no_failure(jvm):
    rows, about = scraped(jvm, "shop:type=Orders,name=second|Count,Rate")
    assert [row["name"] for row in rows] == ["shop_Count"]
    assert about["jmx_reads_failed"] == 0


def test_a_pattern_with_attributes_and_paths(jvm):
    mbeans = "java.lang:type=MemoryPool,name=*|Usage/used,Usage/max\njava.lang:type=Memory|Verbose"
    rows, about = scraped(jvm, mbeans)
    assert about["jmx_reads_failed"] == 0
    names = {row["name"] for row in rows}
    assert names == {"java_lang_Usage_used", "java_lang_Usage_max", "java_lang_Verbose"}
    pools = {labels_of(row).get("name") for row in rows if row["name"] == "java_lang_Usage_used"}
    assert "Metaspace" in pools
    assert len(pools) > 3


def test_names_stay_where_they_are_not_for_prometheus(jvm):
    rows, _ = scraped(jvm, "java.lang:type=Memory|HeapMemoryUsage/used", prometheus_names="false")
    assert [row["name"] for row in rows] == ["java.lang.HeapMemoryUsage.used"]
    assert labels_of(rows[0]) == {"type": "Memory"}


@pytest.mark.parametrize(
    ("mbeans", "code", "why"),
    [
        ("shop:type=Nothing", "jmx.no_mbean", "shop:type=Nothing"),
        ("shop:type=Nothing|Count,Rate", "jmx.no_mbean", "shop:type=Nothing"),
        ("shop:type=Nothing,*", "jmx.no_mbean", "shop:type=Nothing"),
        ("java.lang:type=Memory|Nothing", "jmx.no_sample", "No such attribute"),
        ("java.lang:type=Memory|HeapMemoryUsage/nothing", "jmx.no_sample", "HeapMemoryUsage"),
        ("shop:type=Orders,name=second|Broken", "jmx.no_sample", "no lorry"),
        ("shop:type=Orders,*|Count,Title", "jmx.no_sample", "Title"),
        ("JMImplementation:type=MBeanServerDelegate", "jmx.no_sample", "any attribute"),
    ],
)
def test_a_read_without_samples_is_told_of_and_the_others_are_read(jvm, caplog, mbeans, code, why):
    rows, about = scraped(jvm, f"{mbeans};java.lang:type=Threading|ThreadCount")
    assert "java_lang_ThreadCount" in {row["name"] for row in rows}
    assert (about["up"], about["jmx_reads_failed"]) == (1, 1)
    assert re.search(rf"\[{re.escape(code)}\].*{re.escape(why)}", caplog.text)
    checked = parse_config(JmxSource.config_type, config(jvm, mbeans))
    with pytest.raises(ConfigError, match=re.escape(code)):
        JmxSource.check(checked)


def test_an_mbean_that_comes_later_is_read_then(jvm, caplog):
    given = config(jvm, "shop:type=Late|Count", scrape_interval="1s", request_timeout="1s")
    with source_task(JmxSource, given) as task:
        wait_until(lambda: task.rows(1) and "jmx.no_mbean" in caplog.text, 60, "a word")
        jvm.register("shop:type=Late")
        wait_until(
            lambda: "shop_Count" in {row["name"] for row in task.rows(1)}, 60, "the sample"
        )  # fmt: skip
    assert caplog.text.count("[jmx.no_mbean]") == 1
    assert "gives all samples now" in caplog.text


def test_a_jvm_that_is_restarted_is_down_and_up_again(tmp_path, caplog):
    with JolokiaJvm(tmp_path) as own:
        given = config(
            own, "java.lang:type=Threading|ThreadCount", scrape_interval="1s",
            request_timeout="1s",
        )  # fmt: skip
        with source_task(JmxSource, given) as task:
            wait_until(lambda: up(task) == 1, 60, "it answers")
            own.kill()
            wait_until(lambda: up(task) == 0, 60, "it is down")
            own.start()
            wait_until(lambda: up(task) == 1, 60, "it answers again")
    assert "[metrics.unreachable]" in caplog.text
    assert "is up again" in caplog.text


def up(task):
    return [row["value"] for row in task.rows(1) if row["name"] == "up"][-1]


def test_an_agent_with_tls_and_a_login(tmp_path):
    authority = Authority(tmp_path / "tls")
    with JolokiaJvm(tmp_path / "jvm", authority) as own:
        given = config(own, "java.lang:type=Runtime|Uptime", tls_ca=authority.ca)
        with source_task(JmxSource, given) as task:
            assert "java_lang_Uptime" in {row["name"] for row in task.rows(5)}
        untrusted = parse_config(JmxSource.config_type, given | {"tls.ca": ""})
        with pytest.raises(ConfigError, match=r"metrics\.tls"):
            JmxSource.check(untrusted)
        stranger = parse_config(JmxSource.config_type, given | {"auth.password": "guessed"})
        with pytest.raises(AuthError, match=r"metrics\.auth") as told:
            JmxSource.check(stranger)
        assert "guessed" not in str(told.value)
        assert PASSWORD not in repr(stranger) + repr(untrusted)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply("<html>"), "jmx.not_jolokia"), (Reply("[{}"), "jmx.not_jolokia"),
        (Reply([]), "jmx.not_jolokia"), (Reply([1]), "jmx.not_jolokia"),
        (Reply('"x"'), "jmx.not_jolokia"), (Reply("[" * 100_000), "jmx.not_jolokia"),
        (Reply({"status": 403, "error": "Origin is not allowed"}), "Origin is not allowed"),
        (Reply([{"status": 403, "error": "forbidden"}]), "jmx.read_failed"),
        (Reply([{"status": 200, "value": None}]), "jmx.read_failed"),
        (Reply(status=404), "metrics.not_found"), (Reply(status=403), "metrics.auth"),
        (Reply("[1]" * 1000), "metrics.too_large"), (Reply("[]", cut=5), "metrics.unreachable"),
        (Reply(broken="hang"), "metrics.timeout"),
    ],
    ids=range(14),
)  # fmt: skip
def test_what_answers_wrong_is_named(web, reply, code):
    web.answer = [reply]
    given = {
        "targets": web.url, "mbeans": "a:b=c", "response.max.bytes": "1000",
        "request.timeout": "500ms" if reply.broken else "10s",
    }  # fmt: skip
    if reply.body.startswith(b"[[["):
        given["response.max.bytes"] = "1MiB"
    checked = parse_config(JmxSource.config_type, given)
    with pytest.raises((AuthError, ConfigError, DataError, RetriableError), match=code):
        JmxSource.check(checked)
    assert web.asked[0].path == "/jolokia/"


def test_an_older_jolokia_says_errors_as_texts(web):
    value = {"a:b=c": {"Good": 1, "Bad": "ERROR: no lorry"}}
    web.answer = [Reply([{"status": 200, "value": value}])]
    given = {"targets": web.url, "mbeans": "a:b=*|Good,Bad"}
    with pytest.raises(ConfigError, match=r"jmx\.no_sample.*Bad \(ERROR: no lorry\)"):
        JmxSource.check(parse_config(JmxSource.config_type, given))
    asked = json.loads(web.asked[0].body)
    assert [(one["type"], one["mbean"], one["attribute"]) for one in asked] == [
        ("read", "a:b=*", ["Good", "Bad"])
    ]


def test_labels_of_an_mbean_that_are_ours_are_exported(web):
    web.answer = [Reply([{"status": 200, "value": {"V": 1}}])]
    given = {"targets": web.url, "mbeans": "a:job=theirs,a-b=c|V", "labels": "zone=z"}
    with source_task(JmxSource, given | {"scrape.interval": "1h"}) as task:
        (row,) = (row for row in task.rows(5) if row["name"] == "a_V")
    labels = dict(row["labels"])
    assert labels.pop("instance")
    assert labels == {"job": "penstock", "zone": "z", "exported_job": "theirs", "a_b": "c"}


def test_what_is_read_is_parsed():
    (pool, quoted, plain) = parse_reads(
        'java.lang:type=MemoryPool,name=*|Usage/used, PeakUsage;a:b="x;|y",*|N\n; a:b=\n'
    )
    assert pool.wanted == {"Usage": [("used",)], "PeakUsage": [()]}
    assert pool.is_pattern
    assert (quoted.name, quoted.wanted) == ('a:b="x;|y",*', {"N": [()]})
    assert (plain.name, plain.wanted, plain.is_pattern) == ("a:b=", {}, False)
    assert parse_object_name('a:b="x\\n\\"\\*",c=d e') == ("a", {"b": 'x\n"*', "c": "d e"})


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"mbeans": "java.lang"}, "mbeans"), ({"mbeans": "a:"}, "mbeans"),
        ({"mbeans": "a:b"}, "mbeans"), ({"mbeans": ":b=c"}, "mbeans"),
        ({"mbeans": 'a:b="c'}, "mbeans"), ({"mbeans": "a:b=c,"}, "mbeans"),
        ({"mbeans": "a:b=c|x//y"}, "mbeans"), ({"mbeans": "a:b=c;a:b=c"}, "mbeans"),
        ({"mbeans": ";"}, "mbeans"), ({"jolokia.path": "x"}, "jolokia.path"),
        ({"targets": "http://u:p@a"}, "targets"), ({"auth.type": "basic"}, "auth.user"),
        ({"scrape.interval": "1s"}, "request.timeout"),
        ({"reach.hosts": "b.example"}, "targets"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_mean_anything_is_refused(more, wrong):
    _, errors = read_config(JmxSource.config_type, {"targets": "a", "mbeans": "a:b=c"} | more)
    assert [error.config_path for error in errors] == [wrong]


def test_the_example_of_the_readme_stores_samples(jvm, tmp_path):
    """`penstock run jmx.yaml`."""
    text = README.read_text(encoding="utf-8")
    document = yaml.safe_load(re.search(r"## `jmx-source`.*?```yaml\n(.*?)```", text, re.DOTALL)[1])
    document["source"] |= {"targets": jvm.target, "auth.password": PASSWORD}
    document["sink"]["path"] = str(tmp_path / "out")
    with Pipeline(tmp_path / "run", document, module=PLAIN).running():
        wait_until(lambda: stored(tmp_path / "out"), 120, "rows")
    names = {row["name"] for row in stored(tmp_path / "out")}
    assert {"java_lang_HeapMemoryUsage_used", "java_lang_CollectionCount", "up"} <= names


def stored(out):
    """The rows in the files that are written so far."""
    texts = [file.read_text(encoding="utf-8") for file in out.rglob("*.jsonl")]
    return [json.loads(line) for text in texts for line in text.splitlines()]
