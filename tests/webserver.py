"""A local web server that misbehaves as it is told, for the tests of downloads."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Serves `files`; every GET takes the next entry of `script`, a dict of what it is to do wrong.

    Of an entry: ``cut`` (bytes after which the connection ends), ``status`` (an error), ``headers`` (more or other
    ones; None drops one), ``whole`` (no Range), ``files`` (the files are others from now on), ``start`` (a part that
    begins elsewhere), ``chunked``, ``location``.
    """

    def __init__(self, files=None):
        self.files = dict(files or {})
        self.script, self.requests = [], []
        self.headers = {"ETag": '"one"', "Last-Modified": "Wed, 01 Nov 2023 00:00:00 GMT"}
        self.head = True
        self.sent = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_HEAD(self):
                outer.requests.append(("HEAD", self.path, None, None))
                if not outer.head:
                    return self.fail(501)
                outer.answer(self, {}, body=False)

            def do_GET(self):
                asked = self.headers.get("Range"), self.headers.get("If-Range")
                outer.requests.append(("GET", self.path, *asked))
                outer.answer(self, outer.script.pop(0) if outer.script else {})

            def fail(self, status, headers=()):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, to, do, body=True):
        self.files.update(do.get("files", {}))
        if "files" in do:
            self.headers = {**self.headers, "ETag": '"two"', "Last-Modified": "Thu, 02 Nov 2023 00:00:00 GMT"}
        if "status" in do:
            return to.fail(do["status"], do.get("headers", {}).items())
        if "location" in do:
            return to.fail(302, [("Location", do["location"])])
        content = self.files.get(to.path)
        if content is None:
            return to.fail(404)
        headers = {**self.headers, **do.get("headers", {})}
        asked, only_if = to.headers.get("Range"), to.headers.get("If-Range")
        known = (self.headers.get("ETag"), self.headers.get("Last-Modified"))
        start, status = 0, 200
        if asked and not do.get("whole") and (only_if in known or do.get("careless")):
            start, status = int(asked[len("bytes=") : -1]), 206
            if start >= len(content):
                return to.fail(416, [("Content-Range", f"bytes */{len(content)}")])
            start = do.get("start", start)
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        to.protocol_version = "HTTP/1.1"
        to.send_response(status)
        chunked = do.get("chunked", False)
        headers |= (
            {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(content) - start)}
        )
        for name, value in headers.items():
            if value is not None:
                to.send_header(name, value)
        to.send_header("Connection", "close")
        to.end_headers()
        to.close_connection = True
        if body:
            data = content[start:][: do.get("cut")]
            self.sent += len(data)
            to.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
            if chunked and "cut" not in do:
                to.wfile.write(b"0\r\n\r\n")

    def gets(self):
        """(Range, If-Range) of all GET requests so far."""
        return [request[2:] for request in self.requests if request[0] == "GET"]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
