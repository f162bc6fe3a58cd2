"""Records and the batches they travel in: magic 2, control batches, and the older magics 0 and 1."""
