"""A pipeline somebody would run: stages in a file, one after the other, each restartable, with a report at the end."""
