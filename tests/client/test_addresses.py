from __future__ import annotations

import pytest

from milepost.client.addresses import Address, parse_addresses
from milepost.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:9092", [Address("127.0.0.1", 9092)]),
        ("a:1,b:2", [Address("a", 1), Address("b", 2)]),
        (" a:1 , a:1,", [Address("a", 1)]),
        ("broker-1", [Address("broker-1", 9092)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
        (["a:1", "b:2"], [Address("a", 1), Address("b", 2)]),
    ],
)
def test_addresses_are_read_in_order_and_once(text, addresses):
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize(
    "text", ["", ",", "a:", "a:b", "a:0", "a:65536", ":9092", "::1", "[::1", "[]:1", "[::1]9", "http://a:1", "a:1:2", "a:\u0661"]
)
def test_what_is_no_address_is_refused_with_the_form(text):
    with pytest.raises(InvalidArgument, match="HOST:PORT"):
        parse_addresses(text)


def test_ipv6_address_is_written_with_brackets():
    assert (str(Address("::1", 1)), str(Address("a", 1))) == ("[::1]:1", "a:1")
