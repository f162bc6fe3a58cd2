"""Rows come and go over a connection that is encrypted and logged in."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.errors import AuthenticationFailed
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.wire import produce as produce_rows
from tests.broker import secured
from tests.broker.topics import create, produce, wanted
from tests.security.certificates import authority
from tests.spark.rows import read_rows


def test_rows_come_and_go_over_a_secured_connection(tmp_path):
    """What a task is given to connect with shows no secret."""
    with Life(AloneBroker({"log.dirs": str(tmp_path / "data"), **secured.settings(tmp_path)})) as broker:
        (tmp_path / "authority.pem").write_text(authority().pem)
        with secured.wire_to(broker, "PLAINTEXT") as wire:
            create(wire, wanted("t"))
            produce(wire, "t", [b"one", b"two"])
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a secret";'
        given = {
            "kafka.bootstrap.servers": secured.address(broker, "SASL_SSL"),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(tmp_path / "authority.pem"),
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": login,
        }
        assert [row["value"] for row in read_rows({**given, "subscribe": "t"})] == [b"one", b"two"]
        sink = SinkOptions.parse({**given, "topic": "t"})
        batch = pa.RecordBatch.from_pydict({"value": [b"three"]})
        assert produce_rows([batch], pickle.loads(pickle.dumps(sink)), 0) == 1
        assert [row["value"] for row in read_rows({**given, "subscribe": "t"})] == [b"one", b"two", b"three"]
        assert "a secret" not in repr(sink)
        with pytest.raises(AuthenticationFailed):
            read_rows({**given, "subscribe": "t", "kafka.sasl.jaas.config": login.replace("a secret", "a guess")})
