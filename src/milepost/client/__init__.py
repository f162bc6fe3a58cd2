"""The protocol from the client's side, on blocking sockets: connections, metadata, admin calls, a producer and a consumer."""
