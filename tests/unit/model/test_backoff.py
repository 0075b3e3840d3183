"""A backoff doubles its delay up to a limit, and starts again after a reset."""

from penstock.model.backoff import Backoff, RestartPolicy


def test_the_delay_doubles_up_to_its_limit_and_starts_again_after_a_reset():
    backoff = Backoff(0.5, 3.0)
    delays = []
    for _ in range(4):
        delays.append(backoff.delay_s)
        backoff.advance()
    assert delays == [0.5, 1.0, 2.0, 3.0]
    backoff.reset()
    assert backoff.delay_s == 0.5


def test_a_spread_delay_is_between_half_of_the_delay_and_all_of_it():
    backoff = Backoff(4.0, 8.0)
    assert all(2.0 <= backoff.spread_delay_s() <= 4.0 for _ in range(100))


def test_restarts_in_a_row_double_the_delay_up_to_its_limit_whatever_their_number():
    policy = RestartPolicy(first_delay_s=0.5, max_delay_s=3.0, healthy_after_s=30.0)
    assert [policy.delay_s(n) for n in (0, 1, 2, 3, 100_000)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_jitter_shortens_a_delay_by_at_most_its_fraction():
    policy = RestartPolicy(1.0, 60.0, 300.0, jitter=0.25)
    assert [policy.delay_s(2, fraction) for fraction in (0.0, 0.5, 1.0)] == [4.0, 3.5, 3.0]
