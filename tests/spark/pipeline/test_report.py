"""The report is one HTML file: what was done, and plots, with nothing fetched from anywhere."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from milepost.spark.pipeline.plots import bars, lying_bars, short
from milepost.spark.pipeline.report import render

STATS = {
    "partitions": [{"topic": "t", "partition": 0, "records": 1250, "log_bytes": 98_304}],
    "hours": [
        {"topic": "t", "hour": "2018-05-15 11:00:00+00:00", "records": 1000},
        {"topic": "u", "hour": "2018-05-15 11:00:00+00:00", "records": 200},
        {"topic": "t", "hour": None, "records": 50},
    ],
    "codecs": [{"topic": "t", "codec": "zstd", "plain_bytes": 300, "stored_bytes": 100}],
}


def test_numbers_and_names_are_in_it():
    page = render(
        "page_visits", "now", [{"title": "1 load", "outcome": "done", "summary": "1,250 records"}], STATS, [("6 export", 17)]
    )
    for text in (
        "1,250 records in 1 partitions",
        "1 load",
        "05-15 11h",
        "1,200 records per hour",
        "98.3k bytes",
        "3 times smaller",
        "17 records behind",
    ):
        assert text in page
    assert "http" not in page
    assert "<script" not in page


def test_strangers_text_stays_text():
    page = render("<b>", "now", [{"title": "<script>", "outcome": "", "summary": "&"}], {}, [])
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_plots_are_well_formed():
    for drawn in (
        bars([("a<b", 3), ("c", 0)], "x"),
        lying_bars([("a&b", 2.5)], "y"),
        bars([(str(n), n) for n in range(100)], "z"),
    ):
        assert ElementTree.fromstring(drawn).tag == "svg"
    assert "nothing to draw" in bars([], "x")


def test_short_numbers():
    assert [short(number) for number in (0, 7, 1250, 98_304, 2_500_000, 3e9)] == ["0", "7", "1.25k", "98.3k", "2.5M", "3G"]
