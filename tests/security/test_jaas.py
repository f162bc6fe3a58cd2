from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import InvalidConfiguration
from milepost.security.jaas import parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parse(text: str):
    return parse_jaas("plain.sasl.jaas.config", text)


def test_users_of_a_module():
    config = parse(f'{MODULE} required username="admin" password="x" user_admin="x" user_alice="a b";')
    assert config.module == MODULE
    assert config.options == {"username": "admin", "password": "x", "user_admin": "x", "user_alice": "a b"}
    assert config.users == {"admin": "x", "alice": "a b"}


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ('user_a="say \\"hi\\""', 'say "hi"'),
        ("user_a='single \"quotes\"'", 'single "quotes"'),
        ('user_a="back\\\\slash"', "back\\slash"),
        ("user_a=bare", "bare"),
        ('user_a="a;b=c"', "a;b=c"),
        ('user_a = "spaces"', "spaces"),
        ('\n  user_a="lines"\n', "lines"),
        ('user_a=""', ""),
    ],
)
def test_values_in_quotes_and_without(written, password):
    assert parse(f"{MODULE} required {written} ;").users == {"a": password}


def test_module_without_options():
    assert parse("org.apache.kafka.common.security.scram.ScramLoginModule required;").options == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        MODULE,
        f"{MODULE} required",
        f"{MODULE} needed;",
        f'{MODULE} required user_a="x"',
        f'{MODULE} required user_a="x;',
        f"{MODULE} required user_a;",
        f"{MODULE} required user_a=;",
        f'{MODULE} required ="x";',
        f'{MODULE} required user_a="x" user_a="y";',
        f'{MODULE} required user_a="x"; {MODULE} required;',
    ],
)
def test_what_is_no_configuration_is_refused_without_its_values(text):
    with pytest.raises(InvalidConfiguration, match=r"^plain\.sasl\.jaas\.config: ") as refusal:
        parse(text)
    assert '"x' not in str(refusal.value)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        parse(text)
    except InvalidConfiguration:
        return


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,10}", fullmatch=True), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    )
)
def test_what_is_quoted_is_read_back(options):
    written = " ".join(name + '="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for name, value in options.items())
    assert parse(f"{MODULE} required {written};").options == options
