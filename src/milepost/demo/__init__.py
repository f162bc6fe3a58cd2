"""The demonstration that `make demo` runs: the topic `page_visits`, written, shown, looked into, and served to a client.

A thousand visits, keyed by visitor, go through Kafka's partitioner into five partition directories with small segments, so that
there is something to see: segments, sparse indexes, and two lookups, one by offset and one by time, told step by step. Then a broker is
started over the same directory, and a client produces more visits, consumes all of them in a group, and asks the same question.

The directory `milepost-demo` is made anew each time. If it holds anything that this demonstration did not write, it is left alone.
"""
