"""The guard against the Spark that is installed: each of its functions is judged by name, and what
it would do beyond the row is refused. What is refused here is seen to work in Spark first.
"""

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.spark.plan import refuse_frozen_times
from penstock.transform.sql import allowed_functions, call_arguments
from penstock.transform.sql.guard import check_expression

MIXING = {"agg_funcs", "window_funcs", "generator_funcs"}


@pytest.fixture(scope="module")
def functions(spark):
    """Name of each function that Spark lists → its group and what its documentation says of its
    arguments.
    """
    state = spark._jsparkSession.sessionState()
    found = {row[0]: ("", "") for row in spark.sql("SHOW ALL FUNCTIONS").collect()}
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        names = registry.listFunction().iterator()
        while names.hasNext():
            identifier = names.next()
            info = registry.lookupFunction(identifier).get()
            found[identifier.funcName()] = (info.getGroup(), info.getUsage())
    assert len(found) > 500
    return found


def unjudged(names, allowed):
    return {name for name in names if (name in allowed) + (name in allowed_functions.REFUSED) != 1}


def test_each_function_of_spark_is_allowed_or_refused_by_name(functions):
    assert not unjudged(functions, allowed_functions.ALLOWED)


def test_a_function_in_no_table_is_noticed(functions):
    assert unjudged(functions, allowed_functions.ALLOWED - {"upper"}) == {"upper"}
    assert unjudged(functions, allowed_functions.ALLOWED | {"reflect"}) == {"reflect"}


def test_a_function_that_is_not_allowed_is_refused_in_every_position(functions):
    callable_ = [name for name in functions if re.fullmatch(r"\w+", name)]
    for name in {*callable_, "function_of_a_later_spark"} - allowed_functions.ALLOWED:
        texts = [f"{name}(a)", f"`{name}`(a)", f"upper({name}(a))"]
        if name not in ("any", "some"):  # `x LIKE ANY (…)` calls nothing
            texts.append(f"x LIKE {name} (a)")
        for text in texts:
            with pytest.raises(ConfigError) as caught:
                check_expression(text, "p")
            assert caught.value.code == "transform.forbidden_function", text


def test_no_function_that_combines_rows_is_allowed(functions):
    mixing = {name for name, (group, _) in functions.items() if group in MIXING}
    assert len(mixing) > 50
    assert not mixing & allowed_functions.ALLOWED


def test_each_allowed_function_with_options_has_a_list_of_them(functions):
    with_options = {n for n, (_, usage) in functions.items() if re.search(r"\boptions\]?\)", usage)}
    assert with_options >= {"from_json", "from_xml", "to_csv"}
    assert with_options & allowed_functions.ALLOWED == set(call_arguments.OPTIONS)


def test_each_name_that_spark_resolves_to_a_function_is_known(spark, functions):
    """Every word of Spark's grammar and every function, where no column has that name."""
    jvm = spark._jvm.org.apache.spark.sql.catalyst
    vocabulary = jvm.parser.SqlBaseParser.VOCABULARY
    words = {name for name in functions if re.fullmatch(r"\w+", name)}
    for place in range(1, vocabulary.getMaxTokenType() + 1):
        words.add((vocabulary.getSymbolicName(place) or "").lower())
    calls = jvm.analysis.LiteralFunctionResolution
    as_name = spark._jvm.PythonUtils.toSeq
    resolved = {word for word in words if calls.resolve(as_name([word])).isDefined()}
    assert resolved >= {"user", "current_date"}
    assert resolved <= set(allowed_functions.CONSTANTS)


def test_a_column_is_preferred_over_a_function_of_its_name(spark):
    """Why `user` is left to the columns of the rows."""
    rows = spark.createDataFrame(pa.table({"user": ["ada"]}))
    found = rows.selectExpr("user AS a", "`user` AS b").toArrow().to_pylist()
    assert found == [{"a": "ada", "b": "ada"}]


class Asked(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.paths.append(self.path)
        self.send_error(404)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), Asked) as server:
        server.paths = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_spark_calls_the_url_of_an_option_and_the_guard_refuses_it(spark, server):
    url = f"http://127.0.0.1:{server.server_port}/o.xsd"
    text = f"from_xml('<a/>', 'x string', map('rowValidationXSDPath', '{url}')) IS NULL"
    with pytest.raises(Exception, match=r"404|o\.xsd|XSD|FAILED"):
        spark.range(1).where(text).collect()
    assert "/o.xsd" in server.paths
    with pytest.raises(ConfigError, match="rowValidationXSDPath"):
        check_expression(text, "p")


def test_spark_calls_java_in_the_pattern_of_like_and_the_guard_refuses_it(spark):
    text = "'7' LIKE reflect('java.lang.Math', 'abs', -7)"
    assert spark.range(1).where(text).count() == 1
    with pytest.raises(ConfigError, match="Java method"):
        check_expression(text, "p")


TIMES = pa.table({"line": ["now"], "ts": pa.array([0], pa.timestamp("us", "UTC"))})


@pytest.mark.parametrize(
    "text",
    [
        "ts > 'now'",
        "cast('now' AS timestamp) IS NULL",
        "'today'::date IS NULL",
        "cast(concat('no', 'w') AS timestamp) = ts",
        "to_timestamp('now') = ts",
        "try_to_timestamp('now') = ts",
        "to_date('today') = ts",
        "date('yesterday') = ts",
        "hour('now') = 1",
        "date_add('today', 1) = ts",
        "ts IN ('tomorrow')",
        "CASE WHEN line = 'x' THEN ts ELSE 'now' END = ts",
        "array(ts, 'now')[1] = ts",
    ],
)
def test_a_constant_that_becomes_the_current_time_is_refused(spark, text):
    check_expression(text, "p")  # only the types of the columns tell
    with pytest.raises(ConfigError) as caught:
        refuse_frozen_times(spark.createDataFrame(TIMES).where(text))
    assert caught.value.code == "transform.frozen_time"


@pytest.mark.parametrize(
    "text",
    [
        "line = 'now'",
        "ts > '2020-01-01'",
        "date'2020-01-01' < ts AND timestamp'2020-01-01 00:00:00' < ts",
        "to_timestamp(line) > ts",
        "unix_timestamp(ts) > 1",
        "line IN ('today', 'tomorrow') AND concat(line, 'now') = 'x'",
    ],
)
def test_texts_that_stay_texts_are_allowed(spark, text):
    check_expression(text, "p")
    refuse_frozen_times(spark.createDataFrame(TIMES).where(text))
