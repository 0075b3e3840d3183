"""Places of changes in their transactions."""

from penstock_databases.cdc.transactions import TransactionCounter, transaction_column


def test_changes_are_counted_over_all_tables_and_by_tables():
    counter = TransactionCounter()
    found = [tuple(counter.count("1", table)) for table in "aabab"]
    assert found == [("1", 1, 1), ("1", 2, 2), ("1", 3, 1), ("1", 4, 3), ("1", 5, 2)]
    assert counter.count("2", "a") == ("2", 1, 1)


def test_a_transaction_that_was_given_in_part_goes_on_and_another_one_begins_anew():
    counted = TransactionCounter("7", {"a": 2, "b": 1})
    assert counted.count("7", "a", shown="7:99") == ("7:99", 4, 3)
    assert TransactionCounter("7", {"a": 2}).count("8", "a") == ("8", 1, 1)


def test_rows_that_are_not_counted_have_no_block():
    place = TransactionCounter().count("1", "a")
    block = {"id": "1", "total_order": 1, "data_collection_order": 1}
    assert transaction_column([None, place]).to_pylist() == [None, block]


def test_a_transaction_that_ended_gives_its_counts_and_another_one_begins():
    counter = TransactionCounter()
    assert not counter.open
    counter.count("1", "a")
    assert counter.open
    assert counter.end() == {"a": 1}
    assert not counter.open
    assert counter.count("1", "a") == ("1", 1, 1), "ids may come again: a log may have none"
