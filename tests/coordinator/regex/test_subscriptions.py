"""Regular expressions of consumers: RE2's syntax, whole names, bounded work."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.coordinator.interfaces import Client
from milepost.coordinator.regex.re2_syntax import RegularExpressionError
from milepost.coordinator.regex.subscriptions import Pattern, resolving
from milepost.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.consumer.consumer_fixture import ConsumerBench
from tests.coordinator.in_pieces import Pieces, finish

NAMES = ["visits", "orders", "orders-v2", "a", "aab", "a.b", "__consumer_offsets", "Visits9", "x_1-y"]


def resolve(pattern: str, names: Sequence[str], pieces: Pieces | None = None) -> frozenset[str]:
    return finish(resolving(pattern, names), pieces)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("visits", {"visits"}),
        ("visit", set()),
        ("orders.*", {"orders", "orders-v2"}),
        ("^orders$", {"orders"}),
        ("(visits|orders)(-v\\d+)?", {"visits", "orders", "orders-v2"}),
        ("(?i)visits[0-9]?", {"visits", "Visits9"}),
        ("(?i:V)isits", {"visits"}),
        ("a.b", {"a.b", "aab"}),
        ("a\\.b", {"a.b"}),
        ("\\Qa.b\\E", {"a.b"}),
        ("[[:lower:]]+", {"visits", "orders", "a", "aab"}),
        ("\\p{Lu}.*", {"Visits9"}),
        ("[^a-z].*", {"__consumer_offsets", "Visits9"}),
        ("a{1,2}b?", {"a", "aab"}),
        ("(?P<name>a)+?b", {"aab"}),
        ("(?<name>a)(?:a|c)b", {"aab"}),
        ("\\w+\\b-\\w+", {"orders-v2", "x_1-y"}),
        ("x_\\x31\\x{2d}y", {"x_1-y"}),
        ("[\\w-]+\\d", {"orders-v2", "Visits9"}),
        ("é|a", {"a"}),
        ("", set()),
        (".*", set(NAMES)),
    ],
)
def test_a_pattern_matches_whole_names(pattern, found):
    assert resolve(pattern, NAMES) == found


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)", "(?!a)", "(?<=a)", "(?>a)", "(?P=n)", "(?#a)", "(?(1)a)", "(a)\\1", "a**", "a*+", "a{1001}", "a{2,1}", "*a", "(", "a)",
        "[a", "[z-a]", "\\", "\\y", "\\Z", "[[:foo:]]", "\\p{x1}", "(?P<n>a)(?P<n>b)", "x" * 1001, "(" * 101 + ")" * 101,
        "((a{100}){100}){100}", "(((((){1000}){1000}){1000}){1000}){1000}", "((|){1000}){1000}", "((?:(?i)){0,1000}){1000}",
        "(" + "|" * 900 + "){1000}",
    ],
)  # fmt: skip
def test_what_is_no_pattern_of_re2_is_refused(pattern):
    with pytest.raises(RegularExpressionError):
        Pattern(pattern)


HARD = ["(a+)+b", "(a|aa)+b", "(.*)(.*)(.*)(.*)b", "(a{0,30}){0,30}b", "(.?){0,900}a{900}", "(" * 99 + "a" + "*)" * 99 + "b"]


@pytest.mark.parametrize("pattern", HARD)
@pytest.mark.parametrize("names", [["a" * 249], ["a" * 30_000], [f"{number:04}".rjust(200, "a") for number in range(3_000)]])
def test_patterns_that_take_others_for_ever_are_matched_in_short_pieces_or_refused(pattern, names):
    pieces = Pieces()
    try:
        assert resolve(pattern, names, pieces) == frozenset()
    except RegularExpressionError as error:
        assert "make it simpler" in str(error)
    assert pieces.longest < 0.5


def test_thousands_of_names_are_matched_in_short_pieces():
    pieces = Pieces()
    names = [f"topic-{number}" for number in range(20_000)]
    assert len(resolve("topic-.*", names, pieces)) == 20_000
    assert pieces.count > 10
    assert pieces.longest < 0.5


expressions = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\w", "-", "\\."]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{1,}"])).map(lambda two: f"(?:{two[0]}){two[1]}"),
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda some: f"({'|'.join(some)})"),
    ),
    max_leaves=6,
)


@given(expressions, st.lists(st.text("ab-.", max_size=6), max_size=10))
def test_where_python_and_re2_have_the_same_syntax_they_find_the_same(pattern, names):
    assert resolve(pattern, names) == {name for name in names if re.fullmatch(pattern, name)}


# In a group.


def by_pattern(pattern: str) -> dict[str, object]:
    return {"subscribed_topic_names": None, "subscribed_topic_regex": pattern}


def test_a_member_gets_the_topics_its_pattern_matches():
    bench = ConsumerBench()
    assert bench.joined("a", **by_pattern("(orders|nothing)")) == (2, {"orders": [0, 1]})
    assert bench.described().members[0].subscribed_topic_regex == "(orders|nothing)"


def test_a_new_topic_that_matches_is_assigned():
    bench = ConsumerBench()
    bench.joined("a", **by_pattern("o.*"))
    bench.topics.partitions["offers"] = 1
    bench.consumer_groups.on_topics_changed()
    assert bench.heard("a", 2) == (3, {"orders": [0, 1], "offers": [0]})


def test_names_and_a_pattern_add_up():
    bench = ConsumerBench()
    assert bench.joined("a", subscribed_topic_names=["visits"], subscribed_topic_regex="o.*") == (
        2,
        {"orders": [0, 1], "visits": [0, 1, 2, 3]},
    )


def test_a_pattern_nobody_uses_any_more_is_forgotten():
    bench = ConsumerBench()
    bench.joined("a", **by_pattern("o.*"))
    key = '{"type":"16","data":{"groupId":"g","regularExpression":"o.*"}}'
    assert '"topics":["orders"]' in dict(bench.log.written())[key]
    bench.heard("a", 2, subscribed_topic_names=["orders"], subscribed_topic_regex="")
    assert dict(bench.log.written())[key] == "<DELETE>"
    assert bench.heard("a", 3) == (3, None)


def test_a_group_goes_on_while_its_pattern_is_matched_anew():
    """A heartbeat that finds new topics matches them in pieces; the next one, which comes before that ends, is answered at once."""
    bench = ConsumerBench()
    bench.joined("a", **by_pattern("o.*"))
    bench.heard("a", 2)
    bench.topics.partitions.update({f"o{number}": 1 for number in range(5_000)})
    bench.consumer_groups.on_topics_changed()
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2)
    answers: list[ConsumerGroupHeartbeatResponse] = []
    work = bench.consumer_groups.heartbeat(request, 1, Client("a", "/h"), answers.append)
    next(work)
    assert bench.heard("a", 2) == (2, None)
    assert answers == []
    finish(work)
    assert (answers[0].member_epoch, len(answers[0].assignment.topic_partitions)) == (3, 5_001)


def test_topics_that_come_while_a_pattern_is_matched_are_seen_by_the_next_heartbeat():
    bench = ConsumerBench()
    bench.topics.partitions.update({f"o{number}": 1 for number in range(5_000)})
    bench.joined("a", **by_pattern("o.*"))
    bench.heard("a", 2)
    bench.consumer_groups.on_topics_changed()
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2)
    work = bench.consumer_groups.heartbeat(request, 1, Client("a", "/h"), lambda answer: None)
    next(work)
    bench.topics.partitions["offers"] = 1
    bench.consumer_groups.on_topics_changed()
    finish(work)
    epoch, assigned = bench.heard("a", 2)
    assert (epoch, assigned is not None and assigned["offers"]) == (3, [0])
