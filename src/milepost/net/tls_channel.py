"""A connection whose bytes are encrypted (TLS, by OpenSSL), and the socket that it reads and writes as if they were not.

    handshake   goes on whenever something comes, before the first request; nobody waits for it
    received    record by record, as many as there are or as fit. What OpenSSL has deciphered and was not asked for yet, the kernel knows
                nothing of: `has_unread` says so
    sent        at most MOST_AT_ONCE bytes in a call. What could not be sent has to be sent again, the same bytes first: the channel keeps
                them in front of its queue
    files       are read, enciphered and sent: a copy more than by sendfile
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from milepost.errors import AuthenticationFailed
from milepost.net.channel import Channel
from milepost.segment.file_records import FileSlice

if TYPE_CHECKING:
    from milepost.security.principal import KafkaPrincipal

MOST_AT_ONCE = 64 << 10
NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
WAITS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsSocket:
    """What a channel uses of a socket."""

    def __init__(self, connection: ssl.SSLSocket):
        self.connection = connection
        self.is_established = False

    def fileno(self) -> int:
        return self.connection.fileno()

    def handshake(self) -> None:
        """As far as it goes. BlockingIOError until it is done."""
        try:
            self.connection.do_handshake()
        except WAITS:
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise AuthenticationFailed(f"the TLS handshake failed: {reason_of(error)}{hint(error)}") from None
        self.is_established = True

    def recv_into(self, room: memoryview, most: int = 0) -> int:
        limit = min(most or len(room), len(room))
        size = 0
        try:
            while size < limit:
                count = self.connection.recv_into(room[size:limit])
                if not count:
                    break
                size += count
        except WAITS:
            if not size:
                raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionAbortedError(f"TLS: {reason_of(error)}") from None
        return size

    @property
    def has_unread(self) -> bool:
        return self.connection.pending() > 0

    def send(self, data: Any) -> int:
        try:
            return self.connection.send(memoryview(data)[:MOST_AT_ONCE])
        except WAITS:
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionAbortedError(f"TLS: {reason_of(error)}") from None

    def sendmsg(self, buffers: Iterable[memoryview], ancillary: object = (), flags: int = 0) -> int:
        """Joined, as far as one call takes them."""
        joined = bytearray()
        for buffer in buffers:
            joined += buffer[: MOST_AT_ONCE - len(joined)]
            if len(joined) == MOST_AT_ONCE:
                break
        return self.send(joined)

    def close(self) -> None:
        if self.is_established:
            with suppress(OSError, ValueError):
                self.connection.unwrap()  # says that nothing is cut off; whether the peer answers is not waited for
        self.connection.close()


def reason_of(error: ssl.SSLError) -> str:
    """In words: OpenSSL's are in capitals."""
    return (error.reason or str(error)).replace("_", " ").lower()


def hint(error: ssl.SSLError) -> str:
    return "; this looks like a client without TLS" if error.reason in NOT_TLS else ""


class TlsChannel(Channel):
    """`principal_of` is asked when the handshake is done; None where the peer has to say who it is by itself."""

    __slots__ = ("_principal_of", "_tls")

    def __init__(
        self,
        sock: socket.socket,
        *others: Any,
        context: ssl.SSLContext,
        principal_of: Callable[[ssl.SSLSocket], KafkaPrincipal | None],
    ):
        connection = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True)
        self._tls = TlsSocket(connection)
        super().__init__(self._tls, *others)
        self.principal = None
        self._principal_of = principal_of

    def receive(self, most: int = 0) -> int:
        if not self._tls.is_established:
            self._tls.handshake()
            self.principal = self._principal_of(self._tls.connection)
        return super().receive(most)

    @property
    def has_unread(self) -> bool:  # type: ignore[override]
        return self._tls.has_unread

    def _send_file(self) -> int:
        piece = self._out[0]
        assert isinstance(piece, FileSlice)
        data = FileSlice(piece.records, piece.position, min(piece.size, MOST_AT_ONCE)).read()
        if not data:
            raise ConnectionAbortedError(f"{piece.records.path}: ended {piece.size} bytes early while it was being sent")
        sent = self._tls.send(data)
        if sent < piece.size:
            self._out[0] = FileSlice(piece.records, piece.position + sent, piece.size - sent)
        else:
            self._out.popleft()
        return sent
