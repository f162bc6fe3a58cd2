"""Names in certificates as Java's X500Principal writes them, and the rules that make users of them (Kafka's SslPrincipalMapperTest)."""

from __future__ import annotations

import pytest

from milepost.errors import AuthenticationFailed, InvalidConfiguration
from milepost.security.distinguished_names import distinguished_name, parse_rules, user_of


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (((("countryName", "DE"),), (("organizationName", "example"),), (("commonName", "alice"),)), "CN=alice,O=example,C=DE"),
        (((("organizationalUnitName", "x, y"),), (("commonName", 'a+"b"'),)), 'CN=a\\+\\"b\\",OU=x\\, y'),
        (((("commonName", "#1"),),), "CN=\\#1"),
        (((("commonName", " a "),),), "CN=\\ a\\ "),
        (((("commonName", "a"), ("userId", "7")),), "CN=a+UID=7"),
        (((("emailAddress", "a@b"),), (("commonName", "a"),)), "CN=a,1.2.840.113549.1.9.1=#1603614062"),
    ],
)
def test_name_is_written_as_java_writes_it(name, written):
    assert distinguished_name(name) == written


SERVICE = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,o=mycp,l=fulton,st=md,c=us", "duke"),
        ("T=Duke,OU=JavaSoft,O=Sun Microsystems", "T=Duke,OU=JavaSoft,O=Sun Microsystems"),
    ],
)
def test_first_rule_that_fits_makes_the_user(name, user):
    assert user_of(name, parse_rules(SERVICE)) == user


def test_name_that_no_rule_fits_has_no_user():
    with pytest.raises(AuthenticationFailed, match="no rule"):
        user_of("CN=a", parse_rules("RULE:^O=(.*)$/$1/"))


def test_case_is_changed():
    assert user_of("CN=aBc", parse_rules("RULE:CN=(.*)/$1/U")) == "ABC"
    assert user_of("CN=a/b", parse_rules("RULE:CN=(.*)\\/(.*)/$1-$2/")) == "a-b"


@pytest.mark.parametrize("text", ["RULE:x", "RULE:x/y", "RULE:(/y/", "DEFAULT2", "RULE:x/y/Z", "x", "DEFAULT DEFAULT"])
def test_rules_that_are_none_are_refused(text):
    with pytest.raises(InvalidConfiguration, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(text)
