"""A user's expression is one expression over the row, whatever was tried."""

import pytest

from penstock.model.errors import ConfigError
from penstock.transform.guard import guarded


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
        ("a = '${env:AWS_SECRET_ACCESS_KEY}'", "substitution"),
        ("`${spark.x}` = 1", "substitution"),
    ],
)
def test_what_reaches_beyond_the_row_is_refused_with_its_place(text, code):
    with pytest.raises(ConfigError) as caught:
        guarded(text, "transforms.t.condition")
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
        "count = 1 AND first = 2 AND user.name = 'x'",
        "CASE WHEN a IS NULL THEN true ELSE b END",
        "s RLIKE '[a-z]{2}$'",
    ],
)
def test_expressions_over_the_row_are_left_alone(text):
    assert guarded(text, "p")
