"""Who is at the other end of a connection, and what they may do: no socket and no request in here."""
