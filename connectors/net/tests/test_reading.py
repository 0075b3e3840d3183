"""What is new at an address, and no row twice or missed: every way of going on."""

import json

import pytest

from penstock_connector.testing import RemoteError, source_task
from penstock_net import HttpSource
from support.web import Reply


def config(web, **keys):
    """A configuration that reads once, and tries again fast."""
    base = {"url": web.url + "/items", "tail": "false", "retry.backoff": "1ms"}
    return base | {name.replace("_", "."): str(value) for name, value in keys.items()}


def read(web, offsets=None, **keys):
    """Read once; returns the rows and the offsets after them."""
    with source_task(HttpSource, config(web, **keys), offsets=offsets) as task:
        rows = task.all_rows()
        task.commit()
        return rows, task.offsets


def ids(rows):
    return [row["id"] for row in rows]


def items(*numbers):
    return [{"id": number} for number in numbers]


def test_all_rows_come_when_the_answer_changed_and_none_when_it_did_not(web):
    web.answer = lambda asked: Reply(items(1, 2))
    rows, offsets = read(web)
    assert ids(rows) == [1, 2]
    assert read(web, offsets)[0] == []
    web.answer = lambda asked: Reply(items(1, 2, 3))
    assert ids(read(web, offsets)[0]) == [1, 2, 3]


def test_the_server_is_asked_for_changes_only_by_its_own_marks(web):
    def answer(asked):
        if asked.headers.get("If-None-Match") == '"a"':
            assert asked.headers["If-Modified-Since"] == "Sun, 22 Nov 2026 06:00:00 GMT"
            return Reply(status=304)
        mark = {"ETag": '"a"', "Last-Modified": "Sun, 22 Nov 2026 06:00:00 GMT"}
        return Reply(items(1), headers=mark)

    web.answer = answer
    rows, offsets = read(web)
    assert ids(rows) == [1]
    assert read(web, offsets)[0] == []
    assert len(web.asked) == 2


class Table:
    """Rows behind a cursor, as servers give them."""

    def __init__(self, *rows, inclusive=True):
        self.rows, self.inclusive = list(rows), inclusive

    def __call__(self, asked):
        since = asked.query.get("since")
        least = json.loads(since) if since else -1
        size = int(asked.query.get("limit", 1000))
        found = [r for r in self.rows if r["at"] > least or (self.inclusive and r["at"] == least)]
        return Reply(found[:size])


CURSOR = {"mode": "cursor", "cursor_field": "at", "position_param": "since"}


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_cursor_goes_on_behind_the_last_row(web, inclusive):
    table = web.answer = Table({"id": 1, "at": 5}, {"id": 2, "at": 9}, inclusive=inclusive)
    rows, offsets = read(web, **CURSOR)
    assert ids(rows) == [1, 2]
    table.rows += [{"id": 3, "at": 12}]
    rows, offsets = read(web, offsets, **CURSOR)
    assert ids(rows) == [3]
    assert web.asked[-1].query == {"since": "9"}
    assert read(web, offsets, **CURSOR)[0] == []


def test_a_row_that_appears_later_with_the_same_cursor_is_not_missed(web):
    table = web.answer = Table({"id": 1, "at": 5})
    _, offsets = read(web, **CURSOR)
    table.rows += [{"id": 2, "at": 5}]
    rows, offsets = read(web, offsets, **CURSOR)
    assert ids(rows) == [2]
    table.rows += [{"id": 3, "at": 5}, {"id": 4, "at": 6}]
    assert ids(read(web, offsets, **CURSOR)[0]) == [3, 4]


def test_full_pages_are_followed_by_the_next_at_once(web):
    web.answer = Table(*({"id": n, "at": n} for n in range(10)))
    keys = {**CURSOR, "page_size": 3, "page_size_param": "limit"}
    assert ids(read(web, **keys)[0]) == list(range(10))
    assert [asked.query.get("since") for asked in web.asked] == [None, "2", "4", "6", "8"]


def test_rows_that_come_out_of_order_in_a_page_are_put_in_order(web):
    web.answer = lambda asked: Reply([{"id": 2, "at": 2}, {"id": 1, "at": 1}])
    rows, offsets = read(web, **CURSOR)
    assert ids(rows) == [1, 2]
    assert [o["cursor"] for o in offsets.values()] == [2]


def test_times_are_ordered_as_times_and_not_as_texts(web):
    late, early = "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z"
    web.answer = lambda asked: Reply([{"id": 2, "at": late}, {"id": 1, "at": early}])
    rows, offsets = read(web, **CURSOR)
    assert ids(rows) == [1, 2]
    assert [o["cursor"] for o in offsets.values()] == [late]
    assert read(web, offsets, **CURSOR)[0] == []


@pytest.mark.parametrize(
    ("rows", "keys", "code"),
    [
        ([{"id": 1}], {}, "http.cursor_missing"),
        ([{"at": None}], {}, "http.cursor_missing"),
        ([{"at": 1}, {"at": "x"}], {}, "http.cursor_type"),
        ([{"at": 7, "id": n} for n in range(3)], {"page_size": "3"}, "http.cursor_stuck"),
    ],
)
def test_cursors_that_cannot_be_are_told(web, rows, keys, code):
    web.answer = lambda asked: Reply(rows)
    with pytest.raises(RemoteError) as caught:
        read(web, **CURSOR, **keys)
    assert caught.value.code == code


def test_pages_of_a_cursor_that_do_not_grow_are_refused(web):
    def answer(asked):
        if asked.query.get("p"):
            return Reply([{"id": 1, "at": 1}])
        return Reply([{"id": 9, "at": 9}], headers={"Link": '</items?p=2>; rel="next"'})

    web.answer = answer
    with pytest.raises(RemoteError) as caught:
        read(web, **CURSOR)
    assert caught.value.code == "http.cursor_order"


class Pages:
    """Rows in numbered pages."""

    def __init__(self, count, size=3):
        self.count, self.size = count, size

    def __call__(self, asked):
        page = int(asked.query["page"])
        first = (page - 1) * self.size
        return Reply({"data": items(*range(first, min(first + self.size, self.count)))})


@pytest.mark.parametrize("known", [{}, {"page_size": 3}], ids=["unknown", "known"])
@pytest.mark.parametrize("count", [0, 2, 3, 4, 9])
def test_pages_are_read_to_the_end_and_on_when_they_grow(web, count, known):
    keys = {"mode": "page", "position_param": "page", "rows_pointer": "/data", **known}
    pages = web.answer = Pages(count)
    rows, offsets = read(web, **keys)
    assert ids(rows) == list(range(count))
    assert read(web, offsets, **keys)[0] == []
    for more in (1, 1, 4):
        begin, pages.count = pages.count, pages.count + more
        rows, offsets = read(web, offsets, **keys)
        assert ids(rows) == list(range(begin, pages.count))


def test_a_page_that_lost_rows_is_told_and_nothing_is_skipped(web):
    keys = {"mode": "page", "position_param": "page", "rows_pointer": "/data", "page_size": 3}
    pages = web.answer = Pages(5)
    _, offsets = read(web, **keys)
    pages.count = 4
    with pytest.raises(RemoteError) as caught:
        read(web, offsets, **keys)
    assert caught.value.code == "http.rows_vanished"


def test_rows_are_passed_over_by_their_number(web):
    rows = list(range(7))
    web.answer = lambda asked: Reply(items(*rows[int(asked.query["skip"]) :][:3]))
    keys = {"mode": "offset", "position_param": "skip", "page_size": 3}
    found, offsets = read(web, **keys)
    assert ids(found) == rows
    rows.append(7)
    assert ids(read(web, offsets, **keys)[0]) == [7]


def linked(asked):
    page = int(asked.query.get("p", 0))
    link = {"Link": f'</items?p={page + 1}>; rel="next", </items>; rel="first"'} if page < 2 else {}
    return Reply(items(page * 2, page * 2 + 1), headers=link)


def test_links_are_followed_and_the_last_page_is_looked_at_again(web):
    web.answer = linked
    rows, offsets = read(web, mode="next")
    assert ids(rows) == list(range(6))
    assert [o["next"] for o in offsets.values()] == [f"{web.url}/items?p=2"]
    web.answer = lambda asked: Reply(items(4, 5, 6))
    assert ids(read(web, offsets, mode="next")[0]) == [6]


def test_a_crash_between_two_pages_neither_loses_nor_repeats_a_row(web):
    web.answer = linked
    with source_task(HttpSource, config(web, mode="next")) as task:
        first = task.rows(2)
        task.until("checkpoint")
        task.commit()
    rows, _ = read(web, task.offsets, mode="next")
    assert ids(first) + ids(rows) == list(range(6))


def test_tokens_of_the_next_page_go_where_they_are_told(web):
    def by_token(asked):
        token = json.loads(asked.body)["token"]
        following = {"": 'a"b', 'a"b': 3, "3": None}[token]
        return Reply({"rows": items(len(token)), "meta": {"next": following}})

    web.answer = by_token
    keys = {
        "mode": "next", "method": "POST", "body": '{"token": "${position}"}',
        "next_pointer": "/meta/next", "rows_pointer": "/rows",
    }  # fmt: skip
    assert ids(read(web, **keys)[0]) == [0, 3, 1]
    assert web.asked[0].headers["Content-Type"] == "application/json"


def test_a_link_to_another_server_is_not_followed(web, other_web):
    web.answer = lambda asked: Reply(items(1), headers={"Link": f"<{other_web.url}/x>; rel=next"})
    with pytest.raises(RemoteError) as caught:
        read(web, mode="next")
    assert caught.value.code == "http.other_origin"
    assert other_web.asked == []


def test_what_nobody_may_see_is_in_no_offset(web):
    web.answer = lambda asked: Reply(
        items(1),
        headers={} if "p" in asked.query else {"Link": "</items?p=2&key=hush>; rel=next"},
    )
    with source_task(HttpSource, config(web, mode="next", query_secret="key=hush")) as task:
        task.all_rows()
        task.commit()
    assert [asked.query.get("key") for asked in web.asked] == ["hush", "hush"]
    assert "hush" not in repr(task.offsets)


def test_it_goes_on_looking_while_it_tails(web):
    web.answer = [Reply(items(1)), Reply(items(1)), Reply(items(2))]
    with source_task(HttpSource, config(web, tail="true", poll_interval="10ms")) as task:
        assert ids(task.rows(2)) == [1, 2]
