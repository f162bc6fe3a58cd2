"""The log of one partition: segments in a row, and the state that goes with them."""
