"""Servers bear the questions by which channels find a peer that is gone."""

from __future__ import annotations

from penstock.rpc import channels


def test_a_server_bears_what_our_channels_ask():
    """With gRPC's own bound, five minutes, it hung up on every quiet stream after 100 s."""
    bears = dict(channels.server_options(1))["grpc.http2.min_ping_interval_without_data_ms"]
    assert bears < dict(channels._OPTIONS)["grpc.keepalive_time_ms"]
