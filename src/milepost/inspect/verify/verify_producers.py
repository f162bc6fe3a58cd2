"""Producer state, replayed from the log: what every snapshot and every transaction index should say.

A log that is all there, from its first record on and without gaps, decides both to the byte. Where records are missing
(retention removed the front, compaction the middle, damage anything) the replay knows less than the files do, and only what
must hold anyway is checked:

                        the log is complete                                 records are missing
    snapshot            equal, but producers that were silent for too long  nothing stands behind the snapshot's own offset
                        may be missing
    transaction index   equal to the aborted transactions of the replay     each entry has its ABORT marker, or that lies in a gap; each
                                                                            aborted transaction of the replay is there; none starts
                                                                            later than the replay says, unless a marker may be lost
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.clock import ManualClock
from milepost.errors import CorruptSnapshot, InvalidArgument
from milepost.files import Disk, Overlay, read_file
from milepost.log.producer_state.producers import ProducerStateManager, producer_entry
from milepost.log.producer_state.snapshot import SnapshotEntry, decode_snapshot, snapshot_name
from milepost.record.batch import RecordBatch
from milepost.segment.txn_index import AbortedTransaction

Say = Callable[[str, int], None]
IsLost = Callable[[int], bool]


class ProducerReplay:
    def __init__(self, directory: str, first_offset: int, snapshots: Sequence[int]):
        """State before `first_offset`, where the log starts: nothing, or what the snapshot there says."""
        # An overlay and a clock at zero: loading a snapshot removes others and forgets old producers, and here it must not.
        self._producers = ProducerStateManager(directory, Overlay(), ManualClock(0))
        self.is_exact = first_offset == 0
        if first_offset and first_offset in snapshots:
            self._producers.truncate_and_reload(first_offset - 1, first_offset)
            self.is_exact = self._producers.map_end_offset == first_offset
        self.is_lossy = False
        self.aborted: list[AbortedTransaction] = []
        self.abort_markers: dict[int, int] = {}

    def lose(self) -> None:
        """Records went that nobody chose: a marker may be among them, and what seems one transaction may be two."""
        self.is_exact, self.is_lossy = False, True

    def add(self, batch: RecordBatch, is_abort: bool) -> None:
        """Take in a batch of a producer."""
        if is_abort:
            self.abort_markers[batch.base_offset] = batch.producer_id
        ended = self._producers.replay(batch)
        if ended is None:
            return
        if ended.is_aborted:
            stable = self._producers.last_stable_offset(ended)
            self.aborted.append(AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable))
        try:
            self._producers.complete_transaction(ended)
        except InvalidArgument:
            self.is_exact = False

    def start_segment(self) -> None:
        self.aborted = []
        self.abort_markers = {}

    # Snapshots.

    def check_snapshot(self, disk: Disk, path: str, offset: int, say: Say) -> None:
        try:
            entries = decode_snapshot(read_file(disk, path), path)
        except CorruptSnapshot as damage:
            say(str(damage).removeprefix(f"{path}: "), 0)
            return
        for place, stored in enumerate(entries):
            wrong = self._difference(stored, offset)
            if wrong:
                say(f"producer {stored.producer_id}: {wrong}", 10 + 46 * place)
        if self.is_exact:
            known = {stored.producer_id for stored in entries}
            for producer in self._producers.producers.values():
                if producer.producer_id not in known and producer.current_txn_first_offset is not None:
                    first = producer.current_txn_first_offset
                    say(f"producer {producer.producer_id} is missing, and its transaction from {first} is open", 0)

    def _difference(self, stored: SnapshotEntry, offset: int) -> str:
        if stored.last_data_offset >= offset or (stored.current_txn_first_offset or 0) >= max(offset, 1):
            return f"offsets {stored.last_data_offset} and {stored.current_txn_first_offset} lie behind the snapshot's own, {offset}"
        if not self.is_exact:
            return ""
        replayed = self._producers.last_entry(stored.producer_id)
        if replayed is None:
            return "no batch of it is in the log"
        from_file = producer_entry(stored)
        for name in ("epoch", "last_sequence", "last_data_offset", "last_offset_delta", "last_timestamp", "coordinator_epoch"):
            if getattr(from_file, name) != getattr(replayed, name):
                return f"{name} is {getattr(from_file, name)}, and the log gives {getattr(replayed, name)}"
        if from_file.current_txn_first_offset != replayed.current_txn_first_offset:
            return f"its transaction starts at {from_file.current_txn_first_offset}, and the log says {replayed.current_txn_first_offset}"
        return ""

    # Transaction index.

    def check_txn_index(self, entries: Sequence[AbortedTransaction], is_lost: IsLost, say: Say) -> list[AbortedTransaction]:
        """Compare the entries of the segment that just ended; the aborted transactions that they lack."""
        replayed = self._replayed()
        previous = -1
        for place, entry in enumerate(entries):
            wrong = self._wrong(entry, replayed, is_lost)
            if not wrong and entry.last_offset <= previous:
                wrong = f"ends at offset {entry.last_offset}, and the one before it at {previous}"
            if wrong:
                say(f"entry {place} {wrong}", place * 34)
            previous = max(previous, entry.last_offset)
        kept = {entry.last_offset for entry in self.right_entries(entries, is_lost)}
        return [aborted for aborted in self.aborted if aborted.last_offset not in kept]

    def right_entries(self, entries: Sequence[AbortedTransaction], is_lost: IsLost) -> list[AbortedTransaction]:
        """The entries that may stay, each transaction once."""
        replayed = self._replayed()
        return list({entry.last_offset: entry for entry in entries if not self._wrong(entry, replayed, is_lost)}.values())

    def _replayed(self) -> dict[int, AbortedTransaction]:
        return {aborted.last_offset: aborted for aborted in self.aborted}

    def _wrong(self, entry: AbortedTransaction, replayed: dict[int, AbortedTransaction], is_lost: IsLost) -> str:
        if entry.version:
            return f"has version {entry.version}, and 0 is the only one known"
        if self.abort_markers.get(entry.last_offset) != entry.producer_id:
            # Where the marker itself is lost, the entry is all that is left to say how the transaction ended.
            if is_lost(entry.last_offset) and entry.first_offset <= entry.last_offset:
                return ""
            return f"ends at offset {entry.last_offset}, where no ABORT marker of producer {entry.producer_id} is"
        known = replayed.get(entry.last_offset)
        if known is None:
            return "names a transaction without records" if self.is_exact else ""
        is_same = (entry.first_offset, entry.last_stable_offset) == (known.first_offset, known.last_stable_offset)
        is_earlier = entry.first_offset <= known.first_offset and entry.last_stable_offset <= known.last_stable_offset
        is_possible = entry.first_offset <= entry.last_offset and entry.last_stable_offset <= entry.last_offset + 1
        if is_same or (is_earlier and not self.is_exact) or (is_possible and self.is_lossy):
            return ""
        return (
            f"runs from {entry.first_offset} and leaves {entry.last_stable_offset} stable, "
            f"and the log says {known.first_offset} and {known.last_stable_offset}"
        )


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{snapshot_name(offset)}"
