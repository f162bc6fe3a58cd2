"""How much memory a task may take.

`spark.executor.pyspark.memory` is a limit on the address space of each Python worker, and counts what was reserved, not what was touched.
Without the setting there is no limit, and batches are as large as is quickest.
"""

from __future__ import annotations

import resource

from milepost.files import Disk, opened

PAGE = resource.getpagesize()
LEAST = "512m"
"""What the jobs of this package run with, of any log whose records fit several times."""
LEAST_BATCH_BYTES = 256 << 10
PARTS = 64
"""Of what is free, a batch is one: each column reserves as much, and several batches are alive at once."""


def headroom() -> int | None:
    """Bytes of address space that are left; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    disk = Disk()
    with opened(disk, "/proc/self/statm") as fd:
        pages = int(disk.pread(fd, PAGE, 0).split()[0])
    return max(limit - pages * PAGE, 0)


def batch_bytes(wanted: int) -> int:
    left = headroom()
    if left is None:
        return wanted
    import pyarrow as pa

    # Arrow's own pool reserves 128 MB at its first allocation, for speed.
    pa.set_memory_pool(pa.system_memory_pool())
    return min(wanted, max(left // PARTS, LEAST_BATCH_BYTES))


def too_little(error: MemoryError) -> str:
    """A sentence for a task that ran out of memory."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return f"a task ran out of memory ({error}); give the machine more, or run fewer tasks at once"
    return (
        f"a task may take {limit >> 20} MB (spark.executor.pyspark.memory), and that does not suffice ({error}); "
        f"{LEAST} is the least for records of ordinary size, larger ones need several times their size"
    )
