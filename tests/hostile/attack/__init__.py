"""A generated attack: every API in every version, with every field as bad as a request of 1 MB can make it.

    generator        from the schema of a request: frames that fill an array, stretch a text, push a number to its ends
    vocabulary       what a field is given: names the broker knows, names it does not, the same one again and again
    world            a broker's data directory with topics, groups and transactions in it, made once and copied
    target           a broker that is alone, under attack: its process, renewed from that directory
    cluster_target   one broker of a cluster of three, for what brokers send each other
    siege            one attack beside a healthy client that is timed: longest wait, growth, answer
    table            the rows as text

The bound (issue 12, C): no request of up to 1 MB makes another client wait longer than 50 ms, or the broker grow by more than 64 MB.

    python -m tests.hostile.attack                          every API, the newest version of each
    python -m tests.hostile.attack --all                    every version
    python -m tests.hostile.attack --api Metadata --api Fetch --version 12 --field topics --kind unknown
    python -m tests.hostile.attack --cluster                what brokers send each other, from a stranger and from a broker

A wait is counted without the time in which the machine gave its cores to somebody else (`/proc/PID/task/TID/schedstat`): what is left
is work of the broker, or its waiting for a disk. A row beyond the bound is measured again, against a fresh broker.
"""
