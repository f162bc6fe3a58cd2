"""The demonstration that `make demo` runs: the topic `page_visits`, written, shown, looked into, served to a client, and fed to Spark.

A thousand visits, keyed by visitor, go through Kafka's partitioner into five partition directories with small segments, so that
there is something to see: segments, sparse indexes, and two lookups, one by offset and one by time, told step by step. Then a broker is
started over the same directory, and a client produces more visits, consumes all of them in a group, and asks the same question.
At last a Spark pipeline makes tables and a report of the segments, where Java is there.

The directories `milepost-demo` and `milepost-demo-pipeline` are made anew each time. If one holds anything that
this demonstration did not write, it is left alone.
"""
