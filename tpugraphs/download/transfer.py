"""One file over HTTP, in as many pieces as it takes: resumed, retried, and checked.

While it comes, ``NAME.part`` holds what is there, and ``NAME.json`` what the server said about it: a part is
continued only if the server confirms that the file is still the same (If-Range with its ETag or date), and
begun again otherwise.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import http.client
import json
import os
import random
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tpugraphs import __version__
from tpugraphs.errors import ConfigError, DataError
from tpugraphs.system.files import atomic_write

__all__ = ["Remote", "Retries", "check_url", "fetch", "finished", "probe"]

PIECE = 1 << 20  # bytes read at a time
MOST_PAUSE = 60.0  # seconds between attempts
AGAIN = (408, 425, 429, 500, 502, 503, 504)  # answers that may be another one later
# What may be sent back in a header, checksums that can be compared, and lengths that a file can have.
_VALIDATOR = re.compile(r"[ -~]{1,1000}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")
_LENGTH = re.compile(r"[0-9]{1,18}")
Done = TypeVar("Done")


def _quiet(*_: Any) -> None:
    """Take any report and do nothing."""


@dataclass(frozen=True)
class Retries:
    """How to deal with failures.

    Attributes
    ----------
    count : int
        Attempts that bring nothing new before giving up.
    pause : float
        Seconds before the second attempt; doubles with every further one.
    timeout : float
        Seconds without an answer.
    """

    count: int = 8
    pause: float = 1.0
    timeout: float = 60.0


@dataclass(frozen=True)
class Remote:
    """What a server says about a file.

    Attributes
    ----------
    url : str
    length : int or None
        Bytes.
    validator : str or None
        Strong ETag or date, by which a later answer is known to be of the same file.
    digest : str or None
        Checksum of the whole file, as ``sha256:hex`` or ``md5:hex``.
    """

    url: str
    length: int | None
    validator: str | None
    digest: str | None

    @classmethod
    def of(cls, url: str, headers: Message, length: int | None, whole: bool) -> Remote:
        """From the headers of an answer; `whole` if its body is the whole file."""
        etag, date = ((headers.get(name) or "").strip() for name in ("ETag", "Last-Modified"))
        strong = len(etag) > 2 and etag.startswith('"') and _VALIDATOR.fullmatch(etag)
        known = etag if strong else date if _VALIDATOR.fullmatch(date) else None
        return cls(url, length, known, _digest(headers, whole))


def _digest(headers: Message, whole: bool) -> str | None:
    """Checksum of the whole file, if the server tells one that can be checked."""
    found: dict[str, str] = {}
    for header in (
        "Repr-Digest",
        "Digest",
        "X-Goog-Hash",
    ):  # of the file, also in an answer with a part of it
        if (
            header == "X-Goog-Hash"
            and headers.get("X-Goog-Stored-Content-Encoding", "identity") != "identity"
        ):
            continue  # of the file as it is stored, not as it is sent
        for value in headers.get_all(header) or []:
            for entry in value.split(","):
                name, _, text = entry.strip().partition("=")
                found[name.lower().replace("-", "")] = text.strip().strip(":")
    if whole and "Content-MD5" in headers:
        found["md5"] = headers["Content-MD5"]
    for name, size in (("sha256", 32), ("md5", 16)):
        with suppress(KeyError, binascii.Error, ValueError):
            raw = base64.b64decode(found[name], validate=True)
            if len(raw) == size:
                return f"{name}:{raw.hex()}"
    return None


class _AgainError(Exception):
    """A failure after which another attempt may succeed."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


def check_url(url: str) -> str:
    """Return the address of a folder without a slash at its end; ConfigError unless it is http or https."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        known = parts.scheme in ("http", "https") and host and parts.port != 0 and parts.username is None
    except ValueError:  # of brackets, port or host
        known = False
    if not known or re.search(r"[^!-~]|[?#]", url):
        raise ConfigError(
            f"--url {url!r}: expected an address such as https://host/folder, of ASCII characters without "
            "spaces, user, ? or #"
        )
    return url.rstrip("/")


def _network(work: Callable[[], Done]) -> Done:
    """Do something with the network; what may succeed later raises `_AgainError`."""
    try:
        return work()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code not in AGAIN:
            raise
        seconds = error.headers.get("Retry-After", "")
        wait = float(seconds) if re.fullmatch(r"\d{1,6}", seconds) else None
        raise _AgainError(f"the server answers {error.code} ({error.reason})", wait) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise
        raise _AgainError(_why(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _AgainError(_why(error)) from None


def _why(error: object) -> str:
    """Name a failure of the network in few words."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Closes an answer that leads to no address, which urllib leaves open."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _open(url: str, headers: dict[str, str], timeout: float, method: str = "GET") -> Any:
    common = {"Accept-Encoding": "identity", "User-Agent": f"tpugraphs/{__version__}"}
    request = urllib.request.Request(url, headers={**common, **headers}, method=method)
    try:
        opener = urllib.request.build_opener(_Redirections)
        answer = _network(lambda: opener.open(request, timeout=timeout))
    except ValueError as error:  # of the address that a redirection leads to
        raise _elsewhere(url, f"a redirection to no address ({error})") from None
    if url.startswith("https:") and not answer.url.startswith("https:"):
        answer.close()
        raise _elsewhere(url, f"a redirection to {answer.url}, which is not https")
    return answer


def _elsewhere(url: str, found: str) -> DataError:
    return DataError(f"expected a file to download, found {found}; download through another network",
                     file=url, field="url", expected="a file", found=found)  # fmt: skip


def _refused(url: str, error: Exception) -> DataError:
    """Tell of an answer that will not change."""
    if isinstance(error, urllib.error.HTTPError):
        found = f"{error.code} {error.reason}"
        todo = (
            "check the address, or whether the file has moved" if error.code in (404, 410) else "check access"
        )
    else:
        found, todo = str(getattr(error, "reason", error)), "check the clock and certificates of this machine"
    return DataError(f"expected a file to download, found {found}; {todo}",
                     file=url, field="url", expected="a file", found=found)  # fmt: skip


def _repeat(
    url: str,
    work: Callable[[], Done],
    retries: Retries,
    notice: Callable[[str], None],
    reached: Callable[[], int] = lambda: 0,
) -> Done:
    """Do `work` until it succeeds, or too many attempts in a row have brought nothing new."""
    failures, best = 0, reached()
    while True:
        try:
            return work()
        except (urllib.error.HTTPError, urllib.error.URLError) as error:
            raise _refused(url, error) from None
        except _AgainError as error:
            there = reached()
            failures, best = (1, there) if there > best else (failures + 1, best)
            if failures > retries.count:
                kept = "what is there is kept, and " if there else ""
                tried = f"{failures} attempt{'s' if failures > 1 else ''} that brought nothing new"
                raise DataError(
                    f"{error}; gave up after {tried}; {kept}the same command resumes from there",
                    file=url, field="download", found=str(error), expected="an answer",
                ) from None  # fmt: skip
            pause = retries.pause * 2 ** (failures - 1) * random.uniform(0.5, 1.0)
            pause = min(MOST_PAUSE, pause if error.wait is None else max(pause, error.wait))
            notice(f"{error}; attempt {failures + 1} in {pause:.0f} s")
            time.sleep(pause)


def probe(url: str, retries: Retries, notice: Callable[[str], None] = _quiet) -> Remote:
    """Ask what there is, without taking it.

    Raises
    ------
    DataError
        Nothing is there, or no answer comes.
    """

    def ask() -> Remote:
        try:
            answer = _open(url, {}, retries.timeout, "HEAD")
        except urllib.error.HTTPError as error:
            if error.code not in (400, 403, 405, 501):
                raise
            answer = _open(url, {}, retries.timeout)  # a server without HEAD; the body is not read
        with answer:
            return Remote.of(url, answer.headers, _number(answer.headers.get("Content-Length")), True)

    return _repeat(url, ask, retries, notice)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _LENGTH.fullmatch(text.strip()) else None


def _state(target: Path) -> Path:
    return target.with_name(target.name + ".json")


def _part(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_state(target: Path, url: str) -> Remote | None:
    """Read what is known about the existing part; None if it cannot be continued."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        state = Remote(**json.loads(_state(target).read_text(encoding="utf-8")))
        lengths = state.length is None or (type(state.length) is int and _LENGTH.fullmatch(str(state.length)))
        digests = state.digest is None or _DIGEST.fullmatch(state.digest)
        same = isinstance(state.validator, str) and _VALIDATOR.fullmatch(state.validator)
        if state.url == url and same and lengths and digests:
            return state
    return None


def finished(target: Path, url: str) -> bool:
    """Whether the whole file is there already."""
    state = _read_state(target, url)
    return target.is_file() and state is not None and state.length == _size(target)


def here(target: Path) -> int:
    """Bytes of the file on disk, as a whole or in part."""
    return _size(target) or _size(_part(target))


def fetch(
    url: str,
    target: Path,
    retries: Retries,
    progress: Callable[[int, int | None], None] = _quiet,
    notice: Callable[[str], None] = _quiet,
) -> Remote:
    """Download a file; resume from what an earlier, interrupted call left.

    Parameters
    ----------
    url : str
    target : Path
        Appears under this name when it is complete and checked.
    retries : Retries
    progress : callable
        Called with the bytes on disk and the length, if that is known.
    notice : callable
        Called with a sentence when an attempt fails.

    Returns
    -------
    Remote

    Raises
    ------
    DataError
        Nothing there, no connection for too long, or a wrong checksum twice.
    OSError
        It cannot be written, for example as the disk is full; what is there is kept.
    """
    wrong = 0

    def attempt() -> Remote:
        nonlocal wrong
        remote = _attempt(url, target, retries, progress, notice)
        if _matches(_part(target), remote.digest):
            return remote
        wrong += 1
        _part(target).unlink()
        if wrong > 1:
            raise DataError(
                f"checksum: expected {remote.digest}, as the server says, found another, twice; try again "
                "later, or take the data from Kaggle",
                file=url, field="checksum", expected=remote.digest, found="another",
            )  # fmt: skip
        raise _AgainError("the checksum is wrong: begun again", 0.0)

    remote = _repeat(url, attempt, retries, notice, lambda: _size(_part(target)))
    with open(_part(target), "rb") as file:
        os.fsync(file.fileno())
    os.replace(_part(target), target)
    return remote


def _matches(path: Path, digest: str | None) -> bool:
    if digest is None:
        return True
    name, _, expected = digest.partition(":")
    with open(path, "rb") as file:
        return (
            hashlib.file_digest(file, lambda: hashlib.new(name, usedforsecurity=False)).hexdigest()
            == expected
        )


def _attempt(
    url: str,
    target: Path,
    retries: Retries,
    progress: Callable[[int, int | None], None],
    notice: Callable[[str], None],
) -> Remote:
    """One request: take what is missing."""
    part, known = _part(target), _read_state(target, url)
    offset = _size(part) if known is not None else 0
    if known is not None and known.length is not None and offset:
        if offset == known.length:
            return known
        if offset > known.length:
            known, offset = None, 0
    headers = {}
    if known is not None and known.validator and offset:
        headers = {"Range": f"bytes={offset}-", "If-Range": known.validator}
    try:
        answer = _open(url, headers, retries.timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        _state(target).unlink(missing_ok=True)
        raise _AgainError("the server has no such part of the file: begun again", 0.0) from None
    with answer:
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise DataError(
                f"Content-Encoding: expected identity, found {answer.headers['Content-Encoding']}; "
                "download through another proxy",
                file=url, field="Content-Encoding", expected="identity",
                found=answer.headers["Content-Encoding"],
            )  # fmt: skip
        remote = _continued(url, answer, offset, known)
        if remote is None:
            if answer.status == 206:
                _state(target).unlink(missing_ok=True)
                raise _AgainError("the file on the server has changed: begun again", 0.0)
            if offset:
                notice("the file on the server has changed, or the server cannot resume: begun again")
            length = _number(answer.headers.get("Content-Length"))
            remote, offset = Remote.of(url, answer.headers, length, True), 0
            part.parent.mkdir(parents=True, exist_ok=True)
            with open(part, "wb"):  # emptied before the new state is written, so that they never mismatch
                pass
            with atomic_write(_state(target)) as state:
                state.write(json.dumps(asdict(remote)).encode())
        _copy(answer, part, offset, remote.length, progress)
    return remote


def _continued(url: str, answer: Any, offset: int, known: Remote | None) -> Remote | None:
    """Return what is known, if the answer is the rest of the same file from `offset`; else None."""
    if answer.status != 206 or known is None:
        return None
    found = re.fullmatch(
        r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", answer.headers.get("Content-Range", "")
    )
    if found is None or int(found[1]) != offset:
        return None
    total = _number(found[2])
    now = Remote.of(url, answer.headers, total, False)
    if None not in (total, known.length) and total != known.length:
        return None
    if now.validator is not None and now.validator != known.validator:
        return None
    return Remote(url, known.length if total is None else total, known.validator, now.digest or known.digest)


def _copy(
    answer: Any, part: Path, offset: int, length: int | None, progress: Callable[[int, int | None], None]
) -> None:
    """Append the body of an answer to the part; `_AgainError` unless all of it came."""
    progress(offset, length)
    try:
        with open(part, "ab") as file:
            while length is None or offset < length:
                count = PIECE if length is None else min(PIECE, length - offset)
                data = _network(lambda count=count: answer.read1(count))  # type: ignore[misc]
                if not data:
                    break
                file.write(data)
                offset += len(data)
                progress(offset, length)
    except OSError as error:  # of the disk: those of the network are others by now
        raise OSError(error.errno, error.strerror, str(part)) from None
    if length is not None and offset < length:
        raise _AgainError(f"the connection ended after {offset:,} of {length:,} bytes")
