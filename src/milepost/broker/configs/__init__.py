"""Settings that live in the cluster: of topics, brokers, groups, clients and loggers; shown, changed and taken up."""
