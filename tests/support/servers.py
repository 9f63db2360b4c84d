"""Servers of this machine for tests of addresses: of files, with ranges and with faults, and of S3, by moto's program."""

import contextlib
import http.server
import re
import socket
import subprocess
import threading
from email.utils import formatdate
from pathlib import Path

from processes import until


class Files(http.server.ThreadingHTTPServer):
    """The files of a folder, with ranges and ETags.

    Each request of the numbers that `fails` takes is answered by 503, and each that `breaks` takes ends in its middle.
    Requests wait for `open`. `requests` has all of them: method, path, range.
    """

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.requests, self.with_ranges, self.status = Path(folder), [], True, 0
        self.fails = self.breaks = lambda number: False
        self.open = threading.Event()
        self.open.set()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        """A client that leaves is no fault."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its head

    def do_GET(self):
        server, wanted = self.server, self.headers["Range"] if self.server.with_ranges else None
        path = self.path.partition("?")[0]
        server.requests.append((self.command, path, wanted))
        server.open.wait(60)
        number, file = len(server.requests), server.folder / path.lstrip("/")
        if server.status or server.fails(number):
            self._answer(server.status or 503, b"")
        elif not file.is_file():
            self._answer(404, b"")
        else:
            self._file(file, wanted, server.breaks(number))

    do_HEAD = do_GET  # noqa: N815

    def _file(self, file, wanted, breaks):
        size, time = file.stat().st_size, file.stat().st_mtime_ns
        head = {"ETag": f'"{size}-{time}"', "Last-Modified": formatdate(time // 10**9, usegmt=True)}
        start, stop = 0, size
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", wanted or ""):
            start, stop = int(match[1]), min(int(match[2] or size) + 1, size)
            head["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        with open(file, "rb") as opened:
            opened.seek(start)
            self._answer(206 if match else 200, opened.read(stop - start), head, breaks)

    def _answer(self, status, body, head=(), breaks=False):
        self.send_response(status)
        for name, value in dict(head).items():
            self.send_header(name, value)
        self.send_header("Content-Length", len(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if breaks else body)
            if breaks:
                self.close_connection = True

    def log_message(self, *_):
        """Nothing is printed."""


@contextlib.contextmanager
def running(server):
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.open.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def s3(log):
    """The environment of a client of a new S3 server, which writes what it does to `log`, a file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        open(log, "wb") as told,
        subprocess.Popen(["moto_server", f"-p{port}"], stdout=told, stderr=told) as server,
    ):
        try:
            until(lambda: server.poll() is not None or b"Running on" in Path(log).read_bytes())
            yield {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "SECRET", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
            }  # fmt: skip
        finally:
            server.terminate()
