"""A driver of its own, to be killed: `python -m tests.spark.killed.driver SCENARIO PLACE STEP`."""

from __future__ import annotations

import sys
from pathlib import Path

import milepost.spark
from tests.spark.killed.dying import dying
from tests.spark.killed.scenarios import SCENARIOS
from tests.spark.killed.steps import Step

CONF = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "512m"}


def main(name: str, place: str, step: str) -> None:
    # Tasks that die are tried again, as on a cluster.
    spark = milepost.spark.session("local[2,3]", conf={**CONF, "spark.local.dir": f"{place}/spark"})
    found = Step.from_json(step)
    with dying(spark, found, in_driver=found.with_all):
        SCENARIOS[name].run(spark, Path(place))


if __name__ == "__main__":
    main(*sys.argv[1:])
