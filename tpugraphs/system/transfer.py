"""Download one file over HTTP, in as many attempts as it takes.

Meanwhile, ``NAME.part`` holds the bytes so far, and ``NAME.json`` the server's description of the file. A
part is continued only if the server confirms that the file is still the same (If-Range with its ETag or
date), and begun again otherwise.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from tpugraphs import __version__
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system.files import write_whole
from tpugraphs.system.texts import parsed, read_whole
from tpugraphs.system.words import counted

if TYPE_CHECKING:  # slow to import: only downloads pay for it
    import http.client

PIECE = 1 << 20  # bytes read at a time
MAX_PAUSE = 60.0  # seconds between attempts
RETRY_CODES = (408, 425, 429, 500, 502, 503, 504)  # answers that another attempt may change
_VALIDATOR = re.compile(r"(?!W/)[ -~]{1,1000}")  # a strong ETag or a date, which can be sent back
Done = TypeVar("Done")
Progress = Callable[[int, int | None], None]
Notice = Callable[[str], None]


def _ignored(*_: object) -> None:
    """Do nothing: the callback where the caller gives none."""


@dataclass(frozen=True)
class Retries:
    """When to try again, and when to give up."""

    count: int = 8  # attempts in a row without progress before giving up
    pause: float = 1.0  # seconds before the second attempt; doubles with every further one
    timeout: float = 60.0  # seconds without an answer


class Remote(NamedTuple):
    """A server's description of a file; None where it gives none."""

    url: str
    length: int | None  # bytes
    validator: str | None  # identifies the same file in later answers

    @classmethod
    def of(cls, url: str, answer: http.client.HTTPResponse) -> Remote:
        """Read the headers of an answer with the whole file or a part of it."""
        name = "Content-Range" if answer.status == 206 else "Content-Length"
        length = answer.headers.get(name, "").rpartition("/")[2].strip()
        found = (answer.headers.get(name, "").strip() for name in ("ETag", "Last-Modified"))
        size = int(length) if re.fullmatch("[0-9]{1,18}", length) else None
        return cls(url, size, next(filter(_VALIDATOR.fullmatch, found), None))

    def agrees_with(self, other: Remote) -> bool:
        """Return whether all values that both have are equal."""
        return all(None in pair or pair[0] == pair[1] for pair in zip(self, other, strict=True))


class _RetryError(Exception):
    """A failure after which another attempt may succeed, in `wait` seconds if the server says so.

    `changed`: the part on disk is useless, so the next attempt begins again.
    """

    def __init__(self, message: str, wait: float | None = None, changed: bool = False) -> None:
        super().__init__(message)
        self.wait, self.changed = wait, changed


def check_url(url: str) -> str:
    """Return the address of a folder without a slash at its end; ConfigError unless it is http or https."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        known = parts.scheme in ("http", "https") and host and parts.port != 0 and parts.username is None
    except ValueError:  # of brackets, port or host
        known = False
    if not known or re.search(r"[^!-~]|[?#]", url):
        wanted = "an address such as https://host/folder, of ASCII characters without spaces, user, ? or #"
        raise ConfigError(f"--url {url!r}: expected {wanted}")
    return url.rstrip("/")


def _refused(url: str, found: str, todo: str) -> DataError:
    return DataError.of("url", "a file to download", found, todo, file=url)


@contextmanager
def _network(url: str) -> Iterator[None]:
    """Turn failures of the network into `_RetryError`, or DataError if another attempt cannot help."""
    import http.client
    import ssl
    import urllib.error

    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        answer, seconds = f"{error.code} {error.reason}", error.headers.get("Retry-After", "")
        if error.code == 416:
            raise _RetryError("the server has no such part of the file: begun again", 0.0, True) from None
        if error.code not in RETRY_CODES:
            raise _refused(url, answer, "check the address, your access, or whether it has moved") from None
        wait = float(seconds) if re.fullmatch("[0-9]{1,6}", seconds) else None
        raise _RetryError(f"the server answers {answer}", wait) from None
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: of a bad redirect
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise _refused(url, str(reason), "check the clock and certificates of this machine") from None
        raise _RetryError(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__) from None


def _open(url: str, headers: dict[str, str], timeout: float, method: str = "GET") -> http.client.HTTPResponse:
    import urllib.request

    class Redirects(urllib.request.HTTPRedirectHandler):
        def http_error_302(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any) -> Any:
            try:
                return super().http_error_302(req, fp, code, msg, headers)
            except ValueError:  # of a bad address: nobody else closes the answer
                fp.close()
                raise

        http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    common = {"Accept-Encoding": "identity", "User-Agent": f"tpugraphs/{__version__}"}
    request = urllib.request.Request(url, headers={**common, **headers}, method=method)
    opener = urllib.request.build_opener(Redirects)
    with _network(url):
        answer: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    if url.startswith("https:") and not answer.url.startswith("https:"):
        answer.close()
        found = f"a redirection to {answer.url}, which is not https"
        raise _refused(url, found, "download through another network")
    return answer


def _repeat(
    url: str, work: Callable[[], Done], retries: Retries, notice: Notice, part: Path | None = None
) -> Done:
    """Repeat `work` until it succeeds, or too many attempts in a row have added nothing to the `part`."""
    failures, best = 0, _size(part)
    while True:
        try:
            return work()
        except _RetryError as error:
            if part and error.changed:
                part.unlink(missing_ok=True)
            there = _size(part)
            failures, best = (1, there) if there > best else (failures + 1, best)
            if failures > retries.count:
                kept = "what is there is kept, and " if there else ""
                tried = f"{counted(failures, 'attempt')} that brought nothing new"
                text = f"{error}; gave up after {tried}; {kept}the same command resumes from there"
                fields = {"field": "download", "found": str(error), "expected": "an answer"}
                raise DataError(text, file=url, **fields) from None
            pause = retries.pause * 2 ** (failures - 1) * random.uniform(0.5, 1.0)
            pause = min(MAX_PAUSE, pause if error.wait is None else max(pause, error.wait))
            notice(f"{error}; attempt {failures + 1} in {pause:.0f} s")
            time.sleep(pause)


def probe(url: str, retries: Retries, notice: Notice = _ignored) -> Remote:
    """Ask about a file, without downloading it. Raises DataError if it is missing, or no answer comes."""

    def ask() -> Remote:
        with _open(url, {}, retries.timeout, "HEAD") as answer:
            return Remote.of(url, answer)

    return _repeat(url, ask, retries, notice)


def _size(path: Path | None) -> int:
    return path.stat().st_size if path and path.exists() else 0


def on_disk(target: Path) -> int:
    """Return the bytes of a file that are on disk, all or some of them."""
    return _size(target) or _size(target.with_name(target.name + ".part"))


def fetch(
    url: str, target: Path, retries: Retries, progress: Progress = _ignored, notice: Notice = _ignored
) -> None:
    """Download a file, which appears as `target` when it is complete; resume what an earlier call left.

    `progress` is called with the bytes on disk and the length, if that is known; `notice` with a sentence
    when an attempt fails. Raises DataError if the file is missing or there is no connection for too long, and
    OSError if it cannot be written, for example because the disk is full. The bytes so far are kept.
    """
    part, state = (target.with_name(target.name + suffix) for suffix in (".part", ".json"))
    part.parent.mkdir(parents=True, exist_ok=True)

    attempt = partial(_attempt, url, part, state, retries.timeout, progress, notice)
    _repeat(url, attempt, retries, notice, part)
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    state.unlink()


def _known(state: Path, url: str) -> Remote | None:
    """Read the server's description from when the part was begun; None if it cannot be continued."""
    with suppress(OSError, ValueError, TypeError):
        known = Remote(**parsed(read_whole(state)))
        sound = known.length is None or (type(known.length) is int and known.length >= 0)
        if known.url == url and sound and _VALIDATOR.fullmatch(known.validator or ""):
            return known
    return None


def _attempt(url: str, part: Path, state: Path, timeout: float, progress: Progress, notice: Notice) -> None:
    """Download the missing bytes in one request."""
    known, headers = _known(state, url), {}
    offset = _size(part) if known else 0
    if known and offset:
        if offset == known.length:
            return
        headers = {"Range": f"bytes={offset}-", "If-Range": str(known.validator)}
    with _open(url, headers, timeout) as answer:
        remote = Remote.of(url, answer)
        if answer.status == 206:
            begins = answer.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
            if known is None or not (begins and known.agrees_with(remote)):
                raise _RetryError("the file on the server has changed: begun again", 0.0, True)
            length = known.length if remote.length is None else remote.length
        else:
            if offset:
                notice("the file on the server has changed, or the server cannot resume: begun again")
            offset, length = 0, remote.length
            part.write_bytes(b"")  # emptied before the new state is written, so that they never mismatch
            write_whole(state, json.dumps(remote._asdict()))
        _copy(answer, part, offset, length, progress)


def _copy(
    answer: http.client.HTTPResponse, part: Path, offset: int, length: int | None, progress: Progress
) -> None:
    """Append the body of an answer to the part; `_RetryError` unless all of it came."""
    progress(offset, length)
    try:
        with open(part, "ab") as file:
            while length is None or offset < length:
                with _network(answer.url):
                    data = answer.read1(PIECE if length is None else min(PIECE, length - offset))
                if not data:
                    break
                file.write(data)
                offset += len(data)
                progress(offset, length)
    except OSError as error:  # of the disk: those of the network have other types here
        error.filename = str(part)
        raise
    if length is not None and offset < length:
        raise _RetryError(f"the connection ended after {offset:,} of {counted(length, 'byte')}")
