"""Files to answers without a broker: dump, verify, repair, tables, explain, tune.

The tables are here by name (`milepost.inspect.batches(path)`); everything else is in the module that is called like it.
"""

from milepost.inspect.tables import batches, index_entries, records, segments

__all__ = ["batches", "index_entries", "records", "segments"]
