"""Is everything in files, partitions and data directories what it should be?"""
