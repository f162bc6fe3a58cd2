"""How a log ends: closed, taken away, or failed.

    close        what was appended is durable and trimmed: the next start reads nothing
    taken away   the directory has another name and no owner: it will be removed, or is kept for inspection
    fail         the disk refused something that leaves in doubt what the files hold

Closed or taken away, `is_closed` is set, and nothing changes the files any more: under the old name there may be a new log. What still
wants to is refused (KafkaStorage) when a caller waits for it, and left out when it comes by itself: a flush whose time has come, a
removal that was put off, a second try. Handles are opened for reading only, where the files are now: a reader that has not finished
goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.log.flushing import FlushableLog, sync_files
from milepost.log.owner import Owner
from milepost.segment import names


class EndingLog(FlushableLog):
    """The half of a log that comes last."""

    def close(self) -> None:
        """Snapshot, trim, flush. After this the files are as Kafka leaves them on a clean shutdown."""
        if self.is_closed:
            return
        work = self.begin_close()
        failure: OSError | None = None
        try:
            work()
        except OSError as error:
            failure = error
        self.end_close(failure)

    def begin_close(self) -> Callable[[], None]:
        """The owner's part of it. What is returned waits for the disk, on any thread; `end_close` is told how it went."""
        self.finish_background_work()
        self.is_closed = True
        active = self.segments.active
        epochs, unwritten_epochs = self.epochs, self._unwritten_epochs
        is_untouched = self.recovery_point == self.end_offset and not active.is_active and unwritten_epochs is None
        # A segment that was rolled and never written to has no indexes yet, and Kafka wants to see some.
        if self.is_failed or self.is_read_only or (is_untouched and self.pool.disk.exists(active.path(names.INDEX))):
            return lambda: None  # nothing has changed since it was loaded: of ten thousand partitions that goes for most
        try:
            active.seal()
        except OSError as error:
            reason = error
            return lambda: _raise(reason)
        snapshot, producers = self.producers.encoded_snapshot(), self.producers
        paths = self.files_from(min(self.recovery_point, active.base_offset))
        disk, directory = self.pool.disk, self.directory

        def work() -> None:
            if snapshot is not None:
                producers.write_snapshot(snapshot)
            if unwritten_epochs is not None:
                epochs.write_lines(unwritten_epochs)  # there was no room for them; a clean start does not learn them again
            sync_files(disk, paths, directory)

        return work

    def end_close(self, failure: OSError | None) -> None:
        raise NotImplementedError

    def begin_taking_away(self) -> None:
        """The directory is about to get another name. What is under way comes to its end; from here on nothing is begun."""
        self.finish_background_work()
        self.is_closed = True

    def taken_away(self, directory: str) -> None:
        """The directory has another name, and what happens to it is no concern of the data directory's any more."""
        self.directory = directory
        self.owner = Owner()
        self.epochs.move_to(directory)
        self.producers.move_to(directory)
        self.finish_files()

    def finish_files(self) -> None:
        for segment in self.segments:
            segment.finish(self.directory)

    def close_handles(self) -> None:
        for segment in self.segments:
            segment.close_handles()


def _raise(error: OSError) -> None:
    raise error
