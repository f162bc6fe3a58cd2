"""`__consumer_offsets` and `__transaction_state`: the coordinators over them, and the markers that end transactions."""
