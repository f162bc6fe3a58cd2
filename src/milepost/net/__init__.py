"""Sockets and threads between a client's bytes and a handler: acceptor, processors, request channel, handler pool."""
