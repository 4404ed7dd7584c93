"""uvicorn's httptools protocol with a limit on the size of headers. The other protocol, h11, has such a limit."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES = 32 * 2**10


class LimitedHttpProtocol(HttpToolsProtocol):
    """Refuses a request whose address, headers and trailers together are too long, also before they are complete."""

    _head = 0  # bytes of the current request
    _pending = 0  # bytes since the parser last found something, such as a part of a header

    def data_received(self, data: bytes) -> None:
        self._pending += len(data)
        super().data_received(data)
        if self._pending > HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending = 0
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._pending = 0
        self._head += size
        if self._head > HEADER_BYTES:
            raise ValueError("the headers are too long")  # the parser stops, and uvicorn answers 400
