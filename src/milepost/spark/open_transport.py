"""Which way to a log the options of a source ask for: `path` its files, `kafka.bootstrap.servers` a broker."""

from __future__ import annotations

from milepost.spark.options import PATH, SourceOptions
from milepost.spark.transport import Transport


def open_transport(options: SourceOptions) -> Transport:
    # Imported here: a query over a broker has no use for segment files, nor the other way round.
    if options.transport != PATH:
        from milepost.spark.wire.transport import WireTransport

        return WireTransport(options)
    from milepost.spark.log_files.transport import LogFilesTransport

    return LogFilesTransport(options)
