"""The messages of the Kafka protocol, a module per family: fields, types, versions, defaults. Facts only, read on first use."""
