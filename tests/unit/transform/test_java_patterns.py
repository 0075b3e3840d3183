"""Java's patterns and replacements have the same meaning here, or are refused."""

import pytest

from penstock.model.errors import ConfigError
from penstock.transform.java.patterns import JavaPattern, JavaReplacement


def routed(regex, replacement, text):
    pattern = JavaPattern.compile(regex, "p")
    return JavaReplacement.compile(replacement, pattern, "p").replace_first(pattern, text)


@pytest.mark.parametrize(
    ("regex", "replacement", "text", "expected"),
    [
        ("(.*)-(.*)", "$2.$1", "a-b", "b.a"),
        ("(?<db>\\w+)\\.(?<t>\\w+)", "${t}_${db}", "shop.orders", "orders_shop"),
        ("(a)(b)?", "[$1$2]", "a", "[a]"),
        ("(a)b", "$12", "ab", "a2"),
        ("(a)b", "\\$1\\\\", "ab", "$1\\"),
        ("a|ab", "x", "ab", "xb"),
        ("(?<c>b)\\k<c>", "x", "bbb", "xb"),
        ("\\Qa.b\\E(.)", "$1", "a.bc", "c"),
        ("[^a-c&|~]+\\z", "x", "def", "x"),
        ("(?i)ABC", "x", "abc", "x"),
        ("a*+b", "$0$0", "aab", "aabaab"),
        ("[\\w.-]+", "t", "a-b.c", "t"),
    ],
)
def test_a_replacement_gives_the_result_of_java(regex, replacement, text, expected):
    assert routed(regex, replacement, text) == expected


@pytest.mark.parametrize(
    ("regex", "text", "matches"),
    [("ab", "xab", False), ("ab", "abx", False), ("\\w", "é", False), ("\\d", "٣", False),
     ("a|ab", "ab", True), ("(?i)é", "É", False)],
)  # fmt: skip
def test_a_whole_name_matches_and_classes_are_ascii(regex, text, matches):
    assert JavaPattern.compile(regex, "p").matches(text) is matches


@pytest.mark.parametrize(
    "regex",
    ["(", "[a", "[a&&[^b]]", "[a[b]]", "[]a]", "[a--b]", "\\p{Lu}", "\\h", "\\", "(?P<n>a)", "\\g1",
     "(?#c)a", "(?x) a", "a(?i)b", "*a", "\\E", "(?<a>a)(?<a>b)", "\\k<c>(?<c>b)",
     "\\xZZ", "a{99999999999}"],
)  # fmt: skip
def test_syntax_without_an_equivalent_is_refused(regex):
    with pytest.raises(ConfigError) as caught:
        JavaPattern.compile(regex, "transforms.t.regex")
    assert caught.value.code == "transform.bad_regex"


@pytest.mark.parametrize("replacement", ["$2", "${x}", "$", "\\", "$x", "${1}", "a$"])
def test_a_group_that_does_not_exist_is_refused(replacement):
    pattern = JavaPattern.compile("(a)", "p")
    with pytest.raises(ConfigError) as caught:
        JavaReplacement.compile(replacement, pattern, "transforms.t.replacement")
    assert caught.value.code == "transform.bad_replacement"
