"""Servers of this machine for tests of addresses: of files, of S3 in memory, and of moto's, Azure's and Google's kinds.

Those of files and of S3 in memory count requests, and have faults.
"""

import contextlib
import hashlib
import http.server
import itertools
import json
import re
import socket
import subprocess
import threading
import time
import urllib.parse
from email.utils import formatdate
from pathlib import Path

from processes import until


class Files(http.server.ThreadingHTTPServer):
    """The files of a folder, with ranges and ETags.

    Each request of the numbers that `fails` takes is answered by 503, and each that `breaks` takes ends in its middle.
    `changes` gets the headers and the body of an answer, and returns others. Requests wait for `open`. `requests` has all of them: method, path, range.
    """

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.requests, self.with_ranges, self.status = Path(folder), [], True, 0
        self.status_of_ends = 200  # the answer to a range from the end; 200 has the whole file
        self.fails = self.breaks = lambda number: False
        self.changes = lambda head, body: (head, body)
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
        elif server.status_of_ends != 200 and (wanted or "").startswith("bytes=-"):
            self._answer(server.status_of_ends, b"")
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
            head, body = self.server.changes(head, opened.read(stop - start))
        self._answer(206 if match else 200, body, head, breaks)

    def _answer(self, status, body, head=(), breaks=False):
        self.send_response(status)
        for name, value in dict(head).items():
            self.send_header(name, value)
        if "Connection" not in dict(head):  # else the body ends with the connection
            self.send_header("Content-Length", len(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if breaks else body)
            if breaks or "Connection" in dict(head):
                self.close_connection = True

    def log_message(self, *_):
        """Nothing is printed."""


class Object:
    """An object of a bucket."""

    def __init__(self, data, etag=None):
        self.data = data
        self.time = time.time()
        self.etag = etag or hashlib.md5(data).hexdigest()


class Bucket(http.server.ThreadingHTTPServer):
    """S3 in memory, with the bucket `box`: its `objects` by their keys, and the parts of `uploads` that are not ended.

    `requests` has all requests: method, path with its query, range, and when it came. Each takes `latency` seconds more.
    `sent` counts bytes. `fault` gets the method and the path of each, and returns None, or an action: (status, code) to answer so, "reset"
    to end the connection, "lose" to do what is asked for and then end it, or "hang" to wait for `open`.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _BucketHandler)
        self.open = threading.Event()
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.empty()

    def empty(self):
        """Make a new bucket, without faults."""
        self.objects, self.uploads, self.requests = {}, {}, []
        self.latency = self.sent = 0
        self.fault = lambda method, path: None
        self.open.clear()

    @property
    def env(self):
        """The environment of a client."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "SECRETSECRET",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, key, path):
        """Put a file, or all files of a folder."""
        if path.is_file():
            self.objects[key] = Object(path.read_bytes())
        for file in path.rglob("*"):
            if file.is_file():
                name = file.relative_to(path).as_posix()
                self.objects[f"{key}/{name}"] = Object(file.read_bytes())

    def get(self, key, path):
        """Write an object, or all below it, to a file or a folder."""
        for name, found in self.objects.items():
            if name == key or name.startswith(f"{key}/"):
                file = Path(f"{path}{name.removeprefix(key)}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(found.data)

    def count(self):
        """The requests so far, and how many of them in a row had to wait for an earlier one."""
        rounds, end = 0, 0
        for *_, came in sorted(self.requests, key=lambda request: request[3]):
            if came >= end:
                rounds, end = rounds + 1, came + 0.9 * self.latency
        return len(self.requests), rounds

    def handle_error(self, *_):
        """A client that leaves is no fault."""


class _BucketHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        server = self.server
        path, _, query = self.path.partition("?")
        body = self._body()
        server.requests.append((self.command, self.path, self.headers["Range"], time.monotonic()))
        time.sleep(server.latency)
        action = server.fault(self.command, self.path)
        if action == "hang":
            server.open.wait(60)
        if action in ("reset", "hang"):
            self.close_connection = True
            return
        if isinstance(action, tuple):
            self._error(*action)
            return
        key = urllib.parse.unquote(path).removeprefix("/box").lstrip("/")
        with server.lock:
            status, headers, data = self._do(
                path, key, dict(urllib.parse.parse_qsl(query, True)), body
            )
        if action == "lose":
            self.close_connection = True
            return
        self._answer(status, headers, data)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def _body(self):
        data = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return data
        parts = []
        while True:
            size, _, data = data.partition(b"\r\n")
            count = int(size.partition(b";")[0], 16)
            if not count:
                return b"".join(parts)
            parts.append(data[:count])
            data = data[count + 2 :]

    def _do(self, path, key, query, body):
        """The status, the headers and the body of an answer."""
        if not re.match("/box(/|$)", path):
            return self._xml(404, "NoSuchBucket")
        name = f"_{self.command.lower()}"
        if "uploadId" in query or "uploads" in query:
            name = "_upload"
        return getattr(self, name)(key, query, body)

    def _get(self, key, query, _):
        if not key:
            return self._list(query)
        found = self.server.objects.get(key)
        if not found:
            return self._xml(404, "NoSuchKey")
        headers = {"ETag": f'"{found.etag}"', "Last-Modified": formatdate(found.time, usegmt=True)}
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"] or "")
        size = len(found.data)
        if not match:
            return 200, headers, found.data
        start, stop = int(match[1] or 0), min(int(match[2] or size) + 1, size)
        if not match[1]:
            start, stop = max(0, size - int(match[2])), size
        if start >= size:
            return self._xml(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        return 206, headers, found.data[start:stop]

    _head = _get

    def _put(self, key, _, body):
        if self._is_refused(key):
            return self._xml(412, "PreconditionFailed")
        self.server.objects[key] = Object(body)
        return 200, {"ETag": f'"{self.server.objects[key].etag}"'}, b""

    def _delete(self, key, *_):
        self.server.objects.pop(key, None)
        return 204, {}, b""

    def _post(self, _, query, body):
        assert "delete" in query
        for key in re.findall("<Key>(.*?)</Key>", body.decode()):
            self.server.objects.pop(key, None)
        return 200, {}, b"<DeleteResult/>"

    def _upload(self, key, query, body):
        server, number = self.server, query.get("uploadId")
        if "uploads" in query:
            number = f"u{next(server.numbers)}"
            server.uploads[number] = {}
            text = f"<Bucket>box</Bucket><Key>{key}</Key><UploadId>{number}</UploadId>"
            return self._text(
                f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>"
            )
        if number not in server.uploads:
            return self._xml(404, "NoSuchUpload")
        if self.command == "PUT":
            server.uploads[number][int(query["partNumber"])] = body
            return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""
        if self.command == "DELETE":
            del server.uploads[number]
            return 204, {}, b""
        if self._is_refused(key):
            return self._xml(412, "PreconditionFailed")
        parts = [data for _, data in sorted(server.uploads.pop(number).items())]
        sums = b"".join(hashlib.md5(part).digest() for part in parts)
        etag = f"{hashlib.md5(sums).hexdigest()}-{len(parts)}"
        server.objects[key] = Object(b"".join(parts), etag)
        text = f"<Bucket>box</Bucket><Key>{key}</Key><ETag>{etag}</ETag>"
        return self._text(f"<CompleteMultipartUploadResult>{text}</CompleteMultipartUploadResult>")

    def _is_refused(self, key):
        is_asked = self.headers["If-None-Match"] == "*"
        return is_asked and key in self.server.objects

    def _list(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        folders, rows = set(), []
        for key, value in sorted(self.server.objects.items()):
            if not key.startswith(prefix):
                continue
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(value.time))
            fraction = f"{value.time % 1:.3f}"[1:]
            name = urllib.parse.quote(key, safe="/")
            rows.append(
                f"<Contents><Key>{name}</Key><LastModified>{moment}{fraction}Z</LastModified>"
                f'<ETag>"{value.etag}"</ETag><Size>{len(value.data)}</Size></Contents>'
            )
        rows += [
            f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in sorted(folders)
        ]
        head = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
        return self._text(f"<ListBucketResult>{head}{''.join(rows)}</ListBucketResult>")

    def _text(self, text, status=200):
        return status, {"Content-Type": "application/xml"}, text.encode()

    def _xml(self, status, code):
        return self._text(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>", status)

    def _error(self, status, code):
        self._answer(*self._xml(status, code))

    def _answer(self, status, headers, data):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", len(data))
        self.end_headers()
        if self.command != "HEAD":
            self.server.sent += len(data)
            self.wfile.write(data)

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


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def _program(words, port):
    """Run a server until the end of the block; it has started when it listens."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **silent) as server:
        try:
            until(lambda: server.poll() is not None or _listens(port))
            yield
        finally:
            server.terminate()


def _listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def s3():
    """The environment of a client of a new S3 server, by moto."""
    port = _free_port()
    with _program(["moto_server", f"-p{port}"], port):
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "SECRET",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextlib.contextmanager
def google():
    """The environment of a client of a new server of Google's kind, by gcp-storage-emulator, with the bucket box."""
    port = _free_port()
    words = ["gcp-storage-emulator", "start", "--host=127.0.0.1", f"--port={port}", "--in-memory"]
    address = f"http://127.0.0.1:{port}"
    options = {"token": "anon", "endpoint_url": address, "project": "test"}
    with _program([*words, "--default-bucket=box"], port):
        yield {"STORAGE_EMULATOR_HOST": address, "FSSPEC_GS": json.dumps(options)}


# The account that Azurite has, as its documentation says.
_AZURITE = "devstoreaccount1"
_AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@contextlib.contextmanager
def azure():
    """The environment of a client of a new server of Azure's kind, by Azurite."""
    port = _free_port()
    words = ["azurite-blob", "--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort"]
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={_AZURITE};AccountKey={_AZURITE_KEY};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{_AZURITE};"
    )
    with _program([*words, str(port), "--skipApiVersionCheck", "--silent"], port):
        yield {"AZURE_STORAGE_CONNECTION_STRING": text}
