"""What a client shows and trusts fits into a ticket, and is printed nowhere."""

import json

from penstock.rpc.channels import ClientTls, client_tls_from_dict

TLS = ClientTls("ca", "certificate", "the-key", "plugin")


def test_it_goes_into_a_ticket_and_back():
    assert client_tls_from_dict(json.loads(json.dumps(TLS.to_dict()))) == TLS
    assert client_tls_from_dict(None) is None


def test_its_key_is_not_printed():
    assert "the-key" not in repr(TLS)


def test_the_name_of_the_server_is_an_option_only_when_it_is_another():
    assert TLS.options() == [("grpc.ssl_target_name_override", "plugin")]
    assert ClientTls().options() == []
