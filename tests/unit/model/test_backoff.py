"""A backoff doubles its delay up to a limit, and starts again after a reset."""

from penstock.model.backoff import Backoff


def test_the_delay_doubles_up_to_its_limit_and_starts_again_after_a_reset():
    backoff = Backoff(0.5, 3.0)
    delays = []
    for _ in range(4):
        delays.append(backoff.delay_s)
        backoff.advance()
    assert delays == [0.5, 1.0, 2.0, 3.0]
    backoff.reset()
    assert backoff.delay_s == 0.5
