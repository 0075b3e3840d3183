"""A user's expression is one expression over the row; everything else is refused."""

import pyarrow as pa
import pytest

from penstock.model.errors import ConfigError
from penstock.transform.configuration import build_chain
from penstock.transform.sql.guard import check_expression


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "bad_expression"),
        ("a = 1) OR (1 = 1", "bad_expression"),
        ("a[1)", "bad_expression"),
        ("(a", "bad_expression"),
        ("a = 1; DROP TABLE t", "bad_expression"),
        ("a = 1 -- )", "bad_expression"),
        ("a /* ( */ = 1", "bad_expression"),
        ("a = 'x", "bad_expression"),
        ('a = "x', "bad_expression"),
        ("`a = 1", "bad_expression"),
        ("a = r'\\' OR b = '", "bad_expression"),
        ("(\u180efrom x) = 1", "bad_expression"),
        ("reflect\u200b('a', 'b')", "bad_expression"),
        ("reflect\x01('a', 'b')", "bad_expression"),
        ("reflect\u3000('a', 'b')", "forbidden_function"),
        ("a = $$ ' $$", "bad_expression"),
        ("a IN (SELECT b FROM text.`/etc/passwd`)", "subquery"),
        ("(TABLE x) = 1", "subquery"),
        ("a = (FROM x)", "subquery"),
        ("a = (  from x)", "subquery"),
        ("a IN (VALUES (1))", "subquery"),
        ("(MAP a USING 'sh' AS b FROM t) = 1", "subquery"),
        ("exists(\u017felect 1)", "subquery"),
        ("r'\\' = (select 1)", "subquery"),
        ("'a''' = (select 1)", "subquery"),
        ("'\\\\' = (select 1)", "subquery"),
        ("reflect('a', 'b')", "forbidden_function"),
        ("REFLECT ('a', 'b')", "forbidden_function"),
        ("java_method('a', 'b')", "forbidden_function"),
        ("`java_method`('a', 'b')", "forbidden_function"),
        ("system.builtin.upper(a)", "forbidden_function"),
        ("identifier('reflect')('a')", "forbidden_function"),
        ("\u0131dentifier('reflect')('a')", "forbidden_function"),
        ("input_file_name() = 'x'", "forbidden_function"),
        ("a > now()", "forbidden_function"),
        ("a > current_timestamp", "forbidden_function"),
        ("a > unix_timestamp()", "forbidden_function"),
        ("rand() < 0.1", "forbidden_function"),
        ("uuid() = a", "forbidden_function"),
        ("sum(a) > 1", "forbidden_function"),
        ("explode(a) = 1", "forbidden_function"),
        ("any (a)", "forbidden_function"),
        ("rank() OVER (ORDER BY a) = 1", "forbidden_function"),
        ("foo(a) OVER (ORDER BY a) = 1", "forbidden_function"),
        ("a LIKE reflect('a', 'b')", "forbidden_function"),
        ("a ILIKE java_method('a', 'b')", "forbidden_function"),
        ("a LIKE some_function('a')", "forbidden_function"),
        ("all (a)", "forbidden_function"),
        ("from_avro(a, 'x')", "forbidden_function"),
        ("a_function_of_spark_5(a)", "forbidden_function"),
        ("a = Current_User", "forbidden_function"),
        ("session_user.x = 1", "forbidden_function"),
        ("a > timestamp'now'", "frozen_time"),
        ('a > date "today"', "frozen_time"),
        ("a > timestamp_ntz r' tomorrow UTC'", "frozen_time"),
        ("a > date'\\u006eow'", "frozen_time"),
        ("a > timestamp''", "frozen_time"),
        ("a = '${env:AWS_SECRET_ACCESS_KEY}'", "substitution"),
        ("`${spark.x}` = 1", "substitution"),
    ],
)
def test_an_expression_beyond_the_row_is_refused_with_its_position(text, code):
    with pytest.raises(ConfigError) as caught:
        check_expression(text, "transforms.t.condition")
    assert caught.value.code == f"transform.{code}"
    assert caught.value.diagnostic.config_path == "transforms.t.condition"
    assert caught.value.diagnostic.fix


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "`select` = 'select * from t; -- ${ '".replace("${", "$ {"),
        "a = ')' AND b = \"(\" AND c = '\\')'",
        "a LIKE ANY ('x%', 'y%') OR b LIKE SOME ('z')",
        "extract(year FROM t) = 2020 AND trim(BOTH ' ' FROM s) = 'x'",
        "cast(a AS date) > date'2020-01-01'",
        "unix_timestamp(t) > 5",
        "exists(xs, x -> x > 1) AND element_at(m, 'k')[0] = 1",
        "count = 1 AND first = 2 AND user.name = 'x' AND a.user = `current_date`",
        "struct(a AS user).user = 1",
        "a > timestamp '2020-01-01 00:00:00.5Z' AND b < date'-0044-03-15' AND c = time'12:00'",
        "cast(a AS decimal(10, 2)) IN (1, 2) AND NOT (b) OR a DIV (2) = 1",
        "CASE WHEN a IS NULL THEN true ELSE b END",
        "s RLIKE '[a-z]{2}$'",
    ],
)
def test_expressions_over_the_row_are_allowed(text):
    assert check_expression(text, "p")


@pytest.mark.parametrize(
    "text",
    [
        "from_xml(a, 'x string', map('rowValidationXSDPath', 'http://h/o.xsd'))",
        "from_xml(a, 'x string', map('ROWVALIDATIONXSDPATH', a))",
        "from_xml(a, 'x string', map('row\\u0056alidationXSDPath', 'file:///etc/passwd'))",
        "from_xml(a, 'x string', map(concat('rowValidation', 'XSDPath'), 'file:///etc/passwd'))",
        "from_xml(a, 'x string', map_from_arrays(array('rowValidationXSDPath'), array('f')))",
        "from_xml(a, 'x string', map_concat(map(), map('rowValidationXSDPath', 'f')))",
        "from_xml(a, 'x string', map('mode', 'FAILFAST') || map('rowValidationXSDPath', 'f'))",
        "from_xml(a, 'x string', options => map('mode', 'FAILFAST'))",
        "from_xml(a, 'x string', `map`('mode', 'FAILFAST'))",
        "from_xml(a, 'x string', b)",
        "schema_of_xml('<a/>', map('rowValidationXSDPath', 'f'))",
        "from_json(a, 'x string', map('avroSchemaUrl', 'http://h'))",
        "from_csv(a, 'x string', map('maxColumns', '2000000000'))",
        "to_json(a, map('mode', 'x', 'option_of_spark_5', 'x'))",
    ],
)
def test_options_that_are_not_literals_of_the_list_are_refused(text):
    with pytest.raises(ConfigError, match="option") as caught:
        check_expression(text, "p")
    assert caught.value.code == "transform.forbidden_function"
    assert "map(" in (fix := caught.value.diagnostic.fix) or "Remove it" in fix or "order" in fix


@pytest.mark.parametrize(
    "text",
    [
        "from_xml(a, 'x string')",
        "from_xml(a, schema_of_xml('<a/>'), map('Mode', 'FAILFAST', 'rowTag', 'r'))",
        "from_json(a, 'x timestamp', map('timestampFormat', 'dd/MM/yyyy')).x IS NULL",
        "to_json(a, map()) = '{}'",
        "from_csv(a, 'x int, y string', map('sep', ';', 'mode', 'PERMISSIVE'))",
    ],
)
def test_harmless_options_are_allowed(text):
    assert check_expression(text, "p")


@pytest.mark.parametrize(
    "text",
    [
        "size(array_repeat(line, 2000000000))",
        "repeat(line, 400000000)",
        "`repeat`(line, 400000000)",
        "repeat(line, n)",
        "repeat(line, length(line))",
        "repeat(line, -(-(400000000)))",
        "repeat(line, 100 * 100 * 100)",
        "repeat(repeat(line, 1000), 1000)",
        "array_repeat(array_repeat(line, 200), 200)",
        "array_repeat(sequence(1, 5000), 5000)",
        "repeat(str => line, n => 5)",
        "sequence(1L, 10000000000L)",
        "sequence(-9000, 9000)",
        "sequence(a, b)",
        "sequence(date'0001-01-01', date'9999-12-31', interval '1' second)",
        "sequence(1, size(xs) * 1000000)",
        "lpad(a, 2000000000, 'x')",
        "rpad(a, 1e9)",
        "space(2000000000)",
        "space(9999 + 9999)",
        "array_insert(xs, 2000000000, 1)",
        "array_insert(xs, -2000000000, 1)",
        "format_string('%2000000000d', 1)",
        "printf('%\\u0032000000000d', 1)",
        "format_string(a, 1)",
        "format_number(a, 2000000000)",
        "round(a, 2000000000)",
    ],
)
def test_unbounded_sizes_are_refused(text):
    with pytest.raises(ConfigError) as caught:
        check_expression(text, "p")
    assert caught.value.code == "transform.forbidden_function"
    assert "Write" in caught.value.diagnostic.fix


@pytest.mark.parametrize(
    "text",
    [
        "lpad(id, 10, '0')",
        "rpad(a, length(b) + 2, ' ')",
        "repeat('-', 80)",
        "repeat('-', 20 - length(a))",
        "repeat(lpad(a, 10), 1000)",
        "sequence(1, 10000)",
        "sequence(1000000, 1000010, 2)",
        "sequence(0, size(xs) - 1)",
        "sequence(1, cardinality(split(a, ','))) IS NULL AND space(5) = ''",
        "transform(sequence(1, size(xs)), i -> element_at(xs, i))",
        "array_repeat(a, 3)",
        "array_insert(xs, -1, a)",
        "round(a, 2) = round(a) AND ceil(a, -1) = 1 AND format_number(a, 2) = '1.00'",
        "format_string('%05d of %-10s\\n', a, b)",
        "format_string(r'%s', a)",
    ],
)
def test_bounded_sizes_are_allowed(text):
    assert check_expression(text, "p")


def test_a_misspelt_function_is_answered_with_the_nearest_name():
    with pytest.raises(ConfigError) as caught:
        check_expression("uper(a)", "p")
    assert caught.value.diagnostic.fix == "Did you mean `upper`?"


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"type": "Filter", "condition": "concat(`user`, 'x') = 'ax'"}, "condition"),
        ({"type": "Filter", "condition": "user LIKE 'x'"}, "condition"),
        ({"type": "Project", "columns": "concat(User, 'x') AS u"}, "columns"),
        ({"type": "Project", "columns": "concat(`User`, 'x') AS u"}, "columns"),
        ({"type": "Sql", "statement": "SELECT a FROM batch WHERE `current_date` > a"}, "statement"),
        ({"type": "Sql", "statement": "SELECT `session_user` AS u FROM batch"}, "statement"),
    ],
)
def test_a_name_that_spark_resolves_to_a_function_must_be_a_column(config, path):
    keys = {"transforms": "t"} | {f"transforms.t.{key}": value for key, value in config.items()}
    chain = build_chain(keys)
    with pytest.raises(ConfigError) as caught:
        chain.compile("d", pa.schema([("a", pa.string())]))
    assert caught.value.code == "transform.unknown_column"
    assert caught.value.diagnostic.config_path == f"transforms.t.{path}"
    names = ["a", "user", "User", "current_date", "session_user"]
    assert chain.compile("d", pa.schema([(name, pa.string()) for name in names]))
