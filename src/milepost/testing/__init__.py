"""For other people's tests: a broker and topics as pytest fixtures. pytest finds the plug-in by itself, see `testing/plugin`."""
