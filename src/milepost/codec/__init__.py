"""Bytes to numbers and back: varints, checksums, compression framings. Knows nothing of batches."""
