"""One segment of a partition log: the `.log` file, its sparse indexes, and how they are rebuilt from it."""
