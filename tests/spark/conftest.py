"""One Spark session per test process, with the connector's jars where they can be had, and nothing else that is slow.

A query through the JVM costs a third of a second when warm: rules are tested below Spark (`rows.py` reads a source in this process),
and a few whole queries show that Spark gets the same.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from milepost.spark.spark_session import session

    directory = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        # PySpark's own: sockets and pipes to the JVM that live as long as the process.
        warnings.simplefilter("ignore")
        found = session(
            "local[2]",
            "milepost tests",
            {
                "spark.jars": ",".join(map(str, connector_jars())),
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(directory / "warehouse"),
                "spark.local.dir": str(directory / "local"),
                "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory} -Djava.io.tmpdir={directory}",
                "spark.sql.session.timeZone": "UTC",
                "spark.log.level": "OFF",
                "spark.driver.memory": "1g",
                "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
            },
        )
    yield found
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        found.stop()
