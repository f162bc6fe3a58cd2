"""The tree of znodes that the recorded steps are compared with, read while brokers write and delete."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("kazoo", reason="the ZooKeeper client is not installed: pip install 'milepost[zookeeper]'")
from kazoo.exceptions import NoNodeError

from tests.cluster.recorded.brokers import tree_of

STAT = SimpleNamespace(version=1, cversion=2, ephemeralOwner=0, numChildren=0)
CHILDREN = {"/": ["isr_change_notification", "milepost"], "/isr_change_notification": ["isr_change_0000000007"]}
NOTE = "/isr_change_notification/isr_change_0000000007"


class Passing:
    """One znode goes after so many questions about it."""

    def __init__(self, path: str, questions: int):
        self.path = path
        self.questions = questions

    def _ask(self, path: str) -> None:
        if path == self.path:
            if not self.questions:
                raise NoNodeError
            self.questions -= 1

    def get(self, path: str) -> tuple[bytes, SimpleNamespace]:
        self._ask(path)
        return b"{}", STAT

    def get_children(self, path: str) -> list[str]:
        self._ask(path)
        return CHILDREN.get(path, [])


@pytest.mark.parametrize("questions", [0, 1])
def test_note_that_is_deleted_while_the_tree_is_read_is_not_in_it(questions):
    assert list(tree_of(Passing(NOTE, questions))) == ["/isr_change_notification"]


def test_note_that_stays_is():
    found = tree_of(Passing("/nothing", 0))
    assert found[NOTE] == {"data": "{}", "version": 1, "cversion": 2, "ephemeral": False, "numChildren": 0}
    assert sorted(found) == ["/isr_change_notification", NOTE]
