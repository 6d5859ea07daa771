"""Downloads from servers that drop connections, ignore Range, change files, send too little or nothing."""

from __future__ import annotations

import gc
import json
import socket
import urllib.request

import numpy as np
import pytest
from broken.json_files import BROKEN
from refusals import refuses
from webserver import Server

import tpugraphs as tg
from tpugraphs.system import transfer
from tpugraphs.system.transfer import Remote, Retries, fetch, probe

FILE = np.random.default_rng(0).bytes(300_000)
OTHER = np.random.default_rng(1).bytes(250_000)
FAST = Retries(count=2, pause=0.0, timeout=5.0)


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    one = Server({"/f.tar": FILE})
    yield one
    one.close()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "store" / "f.tar"


def get(server, target, **options):
    told = []
    fetch(f"{server.url}/f.tar", target, options.pop("retries", FAST), notice=told.append, **options)
    assert not target.with_name("f.tar.part").exists()
    return target.read_bytes(), told


def test_one_request_where_nothing_goes_wrong(server, target):
    seen = []
    content, told = get(server, target, progress=lambda done, total: seen.append((done, total)))
    assert content == FILE and told == [] and server.gets() == [(None, None)]
    assert seen[0] == (0, 300_000) and seen[-1] == (300_000, 300_000) and seen == sorted(seen)
    assert transfer.on_disk(target) == 300_000 and list(target.parent.iterdir()) == [target]


def test_goes_on_where_the_connection_dropped(server, target):
    server.script = [{"cut": 100_000}, {"cut": 1}, {"cut": 150_000}]
    content, told = get(server, target)
    assert content == FILE and len(told) == 3 and "connection ended after 100,000 of 300,000 bytes" in told[0]
    assert server.gets() == [
        (None, None), ("bytes=100000-", '"one"'), ("bytes=100001-", '"one"'), ("bytes=250001-", '"one"'),
    ]  # fmt: skip
    assert server.sent == 300_000


@pytest.mark.parametrize("seed", range(5))
def test_goes_on_after_any_drops(server, target, seed):
    rng = np.random.default_rng(seed)
    server.script = [{"cut": int(cut)} for cut in rng.integers(1, 60_000, 15)]
    assert get(server, target)[0] == FILE
    assert server.sent == 300_000


def test_a_server_that_ignores_range(server, target):
    server.script = [{"cut": 200_000}, {"whole": True}]
    content, told = get(server, target)
    assert content == FILE and "cannot resume: begun again" in told[-1]
    server.script = [{"cut": 100, "whole": True} for _ in range(20)]
    refuses(lambda: get(server, target.with_name("again.tar")), tg.DataError, "3 attempts")


@pytest.mark.parametrize("careless", [False, True])
@pytest.mark.parametrize("headers", [{}, {"ETag": None}, {"ETag": 'W/"weak"'}])
def test_a_file_that_changes_between_attempts_is_begun_anew(server, target, careless, headers):
    """Also if the server does not care for If-Range, and goes on in the new file."""
    server.headers |= headers
    server.headers = {name: value for name, value in server.headers.items() if value is not None}
    change = {"files": {"/f.tar": OTHER + FILE[:50_000]}, "careless": careless}
    if "ETag" in headers:
        change["headers"] = headers
    server.script = [{"cut": 200_000}, change, {"headers": headers}]
    content, told = get(server, target)
    assert content == OTHER + FILE[:50_000] and "changed" in " ".join(told)
    asked = "Wed, 01 Nov 2023 00:00:00 GMT" if headers else '"one"'
    assert server.gets()[1] == ("bytes=200000-", asked)


def test_a_file_of_another_length_is_begun_anew(server, target):
    """The same validator, but another length: the server lies about one of the two."""
    server.script = [{"cut": 200_000}, {"careless": True}]
    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=_stop_at(200_000))
    server.files["/f.tar"] = OTHER
    content, _ = get(server, target)
    assert content == OTHER


def test_without_a_validator_nothing_is_continued(server, target):
    server.headers = {}
    server.script = [{"cut": 200_000}]
    assert get(server, target)[0] == FILE
    assert server.gets() == [(None, None)] * 2


def _stop_at(count):
    def progress(done, total):
        if done >= count:
            raise KeyboardInterrupt

    return progress


def test_interrupted_and_called_again(server, target):
    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=_stop_at(100_000))
    part = target.with_name("f.tar.part")
    there = part.stat().st_size
    assert there >= 100_000 and part.read_bytes() == FILE[:there] and not target.exists()
    assert transfer.on_disk(target) == there
    assert get(server, target)[0] == FILE
    if there < len(FILE):
        assert server.gets()[-1] == (f"bytes={there}-", '"one"')


def test_all_of_it_is_there_but_not_moved_yet(server, target):
    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=_stop_at(300_000))
    assert get(server, target)[0] == FILE and len(server.gets()) == 1


ODD = {
    "validator": ['"a\\nb"', '"\u20ac"', '"\\udcff"', "5", "[]", '""', f'"{"a" * 100_000}"'],
    "length": ["1e999", "-1e999", "NaN", "-5", "true", "9" * 400, '"5"', "1.0"],
}


@pytest.mark.parametrize("name, value", [(name, value) for name in ODD for value in ODD[name]])
def test_a_state_with_impossible_values_is_begun_anew(server, target, name, value):
    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=_stop_at(1))
    file = target.with_name("f.tar.json")
    state = {key: json.dumps(entry) for key, entry in json.loads(file.read_bytes()).items()} | {name: value}
    file.write_text("{" + ", ".join(f'"{key}": {entry}' for key, entry in state.items()) + "}", "utf-8")
    assert get(server, target)[0] == FILE
    assert server.gets()[-1] == (None, None)


@pytest.mark.parametrize("odd", ['"\xe9"', '"a\r\n b"', '"' + "a" * 2000 + '"'])
def test_a_validator_that_cannot_be_sent_back_is_none(server, target, odd):
    server.headers = {"ETag": odd}
    server.script = [{"cut": 100_000}]
    assert get(server, target)[0] == FILE
    assert server.gets() == [(None, None)] * 2


@pytest.mark.parametrize("found", [f"bytes {'1' * 5000}-2/3", f"bytes 1-2/{'3' * 5000}"])
def test_a_part_of_impossible_numbers_is_begun_anew(server, target, found):
    server.script = [{"cut": 100_000}, {"careless": True, "headers": {"Content-Range": found}}]
    assert get(server, target)[0] == FILE


@pytest.mark.parametrize("place", ["http://[", "http://x:y/", "file:///etc/passwd", "//\u2100.com/"])
def test_a_redirection_to_no_address(server, target, place):
    """An answer that stays open would be an error of this test: its socket is collected."""
    server.script = [{"location": place.encode().decode("latin-1")}] * 3
    with pytest.raises(tg.DataError) as caught:
        get(server, target)
    assert caught.value.file == f"{server.url}/f.tar"
    del caught
    gc.collect()


def test_https_does_not_become_http(target, monkeypatch):
    class Answer:
        url = "http://host/f.tar"

        def close(self):
            pass

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", lambda *_, **__: Answer())
    refuses(lambda: fetch("https://host/f.tar", target, FAST), tg.DataError, "http://host/f.tar", "https")


@pytest.mark.parametrize("name", [*BROKEN, "none", "other types", "other fields"])
def test_a_damaged_state_is_begun_anew(server, target, name):
    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=_stop_at(1))
    file = target.with_name("f.tar.json")
    state = json.loads(file.read_bytes())
    if name == "none":
        file.unlink()
    elif name.startswith("other"):
        file.write_text(
            json.dumps(state | {"validator": 5} if name == "other types" else state | {"digest": None})
        )
    else:
        file.write_bytes(BROKEN[name])
    assert get(server, target)[0] == FILE
    assert server.gets()[-1] == (None, None)


def test_a_part_that_is_too_long_is_begun_anew(server, target):
    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=_stop_at(1))
    target.with_name("f.tar.part").write_bytes(bytes(300_001))
    assert get(server, target)[0] == FILE


def test_too_little_every_time(server, target):
    server.script = [{"cut": 1000}] + [{"cut": 0}] * 3
    with pytest.raises(
        tg.DataError, match=r"ended after 1,000 of 300,000 bytes; gave up after 3.*resumes"
    ) as caught:
        get(server, target)
    assert caught.value.file == f"{server.url}/f.tar"
    assert target.with_name("f.tar.part").read_bytes() == FILE[:1000]
    assert get(server, target)[0] == FILE and server.sent == 300_000


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_a_server_in_trouble_is_asked_again(server, target, status):
    server.script = [{"status": status}, {"cut": 100_000}, {"status": status}]
    content, told = get(server, target)
    assert content == FILE and f"the server answers {status}" in told[0]
    server.script = [{"status": status}] * 3
    with pytest.raises(tg.DataError, match=f"answers {status}.*gave up after 3 attempts"):
        get(server, target.with_name("other.tar"))


def test_the_pause_grows_and_the_server_may_ask_for_a_longer_one(server, target, monkeypatch):
    pauses = []
    monkeypatch.setattr(transfer.time, "sleep", pauses.append)
    server.script = [{"status": 500}] * 4 + [{"status": 503, "headers": {"Retry-After": "40"}}]
    server.script.append({"status": 503, "headers": {"Retry-After": "99999"}})
    assert get(server, target, retries=Retries(8, 1.0, 5.0))[0] == FILE
    assert all(0.5 * 2**k <= pause <= 2**k for k, pause in enumerate(pauses[:4]))
    assert pauses[4:] == [40.0, 60.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_an_answer_that_will_not_change(server, target, status):
    server.script = [{"status": status}]
    with pytest.raises(tg.DataError, match=f"found {status}.*check") as caught:
        get(server, target)
    assert len(server.gets()) == 1 and caught.value.found.startswith(str(status))


def test_a_part_that_the_server_does_not_have(server, target):
    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=_stop_at(300_000))
    part = target.with_name("f.tar.part")
    part.write_bytes(FILE[:200_000])
    server.files["/f.tar"] = FILE[:100_000]  # and yet the same ETag
    content, told = get(server, target)
    assert content == FILE[:100_000] and "no such part" in told[0]


@pytest.mark.parametrize("wrong", [{"start": 5}, {"headers": {"Content-Range": "bytes x"}}])
def test_another_part_than_asked_for(server, target, wrong):
    server.script = [{"cut": 100_000}, wrong]
    if "headers" in wrong:
        server.script[1] = {**wrong, "careless": True}
    assert get(server, target)[0] == FILE


def test_chunks_without_a_length(server, target):
    server.script = [{"chunked": True, "cut": 1000}, {"chunked": True}]
    seen = []
    content, told = get(server, target, progress=lambda done, total: seen.append(total))
    assert content == FILE and len(told) == 1
    assert seen[0] is None and seen[-1] == 300_000  # the answer with the rest tells the length


def test_a_redirection_keeps_the_part(server, target):
    server.files["/there.tar"] = FILE
    server.script = [{"location": "/there.tar"}, {"cut": 100_000}, {"location": "/there.tar"}]
    assert get(server, target)[0] == FILE
    assert server.requests[-1] == ("GET", "/there.tar", "bytes=100000-", '"one"')


def test_nobody_listens(target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = []
    with pytest.raises(tg.DataError, match="gave up"):
        fetch(f"http://127.0.0.1:{port}/f.tar", target, FAST, notice=told.append)
    assert len(told) == 2


def test_an_answer_that_never_comes(target):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/f.tar"
        refuses(lambda: fetch(url, target, Retries(0, 0.0, 0.2)), tg.DataError, "timed out")


def test_a_full_disk(server, target, monkeypatch):
    def full(path, mode="r", *args, **kwargs):
        file = open(path, mode, *args, **kwargs)
        if mode == "ab":
            file.close()
            file = open("/dev/full", "wb", buffering=0)
        return file

    monkeypatch.setattr(transfer, "open", full, raising=False)
    with pytest.raises(OSError, match="No space left") as caught:
        get(server, target)
    assert caught.value.filename.endswith("f.tar.part") and len(server.gets()) == 1


def test_probe(server):
    remote = probe(f"{server.url}/f.tar", FAST)
    assert remote == Remote(f"{server.url}/f.tar", 300_000, '"one"') and server.gets() == []
    refuses(lambda: probe(f"{server.url}/none", FAST), tg.DataError, "404")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host/folder",
        "ftp://host/x",
        "file:///etc/passwd",
        "http://",
        "http:/x",
        "http://[",
        "http://x:y",
        "http://x:0",
        "http://x:99999",
        "http://a b/",
        "http://x/\n",
        "http://x\r\nHost: y/",
        "http://user:pw@x/",
        "http://a..b/",
        f"http://{'a' * 99}/",
        "http://x/\u00e9",
        "http://\u2100.com/",
        "http://x/?a=1",
        "http://x/#a",
        "http://\udcff/",
    ],
)
def test_not_an_address(url):
    refuses(lambda: transfer.check_url(url), tg.ConfigError, "address")
