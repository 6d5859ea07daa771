"""Archives to collections: unpacking what may be malicious, and `tpugraphs download` from end to end."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import madeup
import numpy as np
import pytest
from broken.json_files import BROKEN
from refusals import refuses
from webserver import Server

import tpugraphs as tg
from tpugraphs import cli, data
from tpugraphs.download import sources as download
from tpugraphs.download.sources import unpack
from tpugraphs.system import transfer
from tpugraphs.system.files import locked
from tpugraphs.system.progress import Progress
from tpugraphs.system.transfer import Retries

PLACE = "layout/xla/random/valid"
FAST = Retries(count=2, pause=0.0, timeout=5.0)


def tar_of(members, form=tarfile.PAX_FORMAT):
    """A tar file of (name or TarInfo, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def special(kind, name=f"npz/{PLACE}/x.npz", link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.fixture
def into(tmp_path):
    """Unpack bytes of an archive below a new folder; everything outside must stay as it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")

    def put(content, place=PLACE):
        archive, root = tmp_path / "a.tar", tmp_path / "root" / "npz"
        archive.write_bytes(content)
        try:
            return unpack(archive, root, place)
        finally:
            assert [p.name for p in outside.iterdir()] == ["precious"]
            assert (outside / "precious").read_text() == "mine"
            assert {p.name for p in tmp_path.iterdir()} <= {"a.tar", "root", "outside"}
            assert not list(root.rglob("*.tmp"))

    put.folder = tmp_path / "root" / "npz" / PLACE
    return put


def there(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("prefix", ["npz/", "./npz/", "", "npz_all/npz/"])
def test_unpack(into, form, prefix):
    long = "x" * (90 if form == tarfile.USTAR_FORMAT else 200)
    members = [
        (special(tarfile.DIRTYPE, f"{prefix}{PLACE}"), b""),
        (f"{prefix}{PLACE}/a.npz", b"A" * 100_000),
        (f"{prefix}{PLACE}/{long}.npz", b""),
        ("LICENSE", b"text"),
        (f"{prefix}{PLACE}/notes.txt", b"text"),
        (f"{prefix}{PLACE}/.hidden.npz", b"text"),
        (f"{prefix}layout/xla/random/train/b.npz", b"another split"),
        (f"{prefix}{PLACE}/deeper/c.npz", b"another folder"),
    ]
    assert into(tar_of(members, form)) == [("a.npz", 100_000), (f"{long}.npz", 0)]
    assert there(into.folder) == {"a.npz": b"A" * 100_000, f"{long}.npz": b""}
    assert {p.name for p in into.folder.parents[3].rglob("*")} == {
        "xla",
        "random",
        "valid",
        *there(into.folder),
    } | {"layout"}


@pytest.mark.parametrize(
    "name",
    [
        f"/npz/{PLACE}/x.npz", f"../npz/{PLACE}/x.npz", f"npz/{PLACE}/../x.npz", f"npz/../../outside/{PLACE}/x.npz",
        f"npz/{PLACE}/..\\..\\x.npz", f"C:/npz/{PLACE}/x.npz", f"npz/{PLACE}/a\nb.npz", "../outside/precious", "/etc/x",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere(into, name):
    with pytest.raises(tg.DataError, match="leads elsewhere"):
        into(tar_of([(f"npz/{PLACE}/good.npz", b"x"), (name, b"evil")]))
    refuses(lambda: into(tar_of([(special(tarfile.DIRTYPE, name), b"")])), tg.DataError, "leads elsewhere")


@pytest.mark.parametrize(
    "info",
    [
        special(tarfile.SYMTYPE, link="../../../../../../outside"),
        special(tarfile.SYMTYPE, "npz/layout", "/tmp"),
        special(tarfile.LNKTYPE, link="../outside/precious"),
        special(tarfile.FIFOTYPE),
        special(tarfile.CHRTYPE),
        special(tarfile.BLKTYPE),
        special(tarfile.CONTTYPE),
    ],
)
def test_links_and_devices(into, info):
    with pytest.raises(tg.DataError, match="a link, a device or a sparse file; this is not a publ") as caught:
        into(tar_of([(info, b""), (f"npz/{PLACE}/x.npz", b"evil")]))
    assert caught.value.file.endswith("a.tar") and not there(into.folder)


def test_sparse_files_are_refused(into):
    """A few bytes that would become a terabyte."""
    info = special(tarfile.REGTYPE)
    info.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40),
        "GNU.sparse.name": f"npz/{PLACE}/x.npz",
    }  # fmt: skip
    refuses(lambda: into(tar_of([(info, b"1\n0\n0\n".ljust(512, b"\0"))])), tg.DataError, "sparse")


def test_a_size_that_is_not_there(into):
    info = special(tarfile.REGTYPE)
    info.pax_headers = {"size": str(1 << 60)}
    refuses(lambda: into(tar_of([(info, b"little")])), tg.DataError, "tar file")
    assert not there(into.folder)


@pytest.mark.parametrize("name", [f"npz/{PLACE}/x.npz", "LICENSE"])
@pytest.mark.parametrize("size", ["-1", "-512", "-99999999999", str(1 << 62), "9" * 400])
def test_sizes_that_no_member_can_have(into, name, size):
    info = tarfile.TarInfo(name)
    info.pax_headers = {"size": size}
    with pytest.raises(tg.DataError, match="expected a whole tar file") as caught:
        into(tar_of([(f"npz/{PLACE}/a.npz", b"a" * 5), (info, b"little")]))
    assert caught.value.file.endswith("a.tar") and caught.value.field == "archive"


def test_archives_cut_short(into):
    whole = tar_of([(f"npz/{PLACE}/{name}.npz", name.encode() * 3000) for name in "abc"])
    end = len(whole.rstrip(b"\0"))
    for length in [0, 1, 511, *range(512, end, 1500), end, end + 511 - (end - 1) % 512]:
        refuses(lambda: into(whole[:length]), tg.DataError, "tar file")
        assert all(content == name[0].encode() * 3000 for name, content in there(into.folder).items())
    assert len(into(whole)) == 3


def test_a_damaged_header_is_no_end(into):
    whole = bytearray(tar_of([(f"npz/{PLACE}/{name}.npz", bytes(1000)) for name in "abc"]))
    at = whole.index(b"b.npz")
    whole[at] ^= 3
    refuses(lambda: into(bytes(whole)), tg.DataError, "the end")


def test_any_damage_stays_inside(into):
    """Headers with other bytes, and checksums that are right again."""
    names = ("a.npz", "b" * 150 + ".npz", "c.npz")
    whole = tar_of([(f"npz/{PLACE}/{name}", bytes(700)) for name in names])[: 512 * 18]
    headers = [at for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar"]
    assert len(headers) == 4  # one of them for the long name
    rng, outcomes = np.random.default_rng(0), set()
    for turn in range(400):
        damaged = bytearray(whole)
        for _ in range(turn % 3 + 1):
            damaged[int(rng.choice(headers)) + int(rng.integers(345))] = int(rng.integers(256))
        for at in headers if turn % 2 else ():
            total = sum(damaged[at : at + 148]) + 8 * 32 + sum(damaged[at + 156 : at + 512])
            damaged[at + 148 : at + 156] = b"%06o\0 " % total
        try:
            into(bytes(damaged))
            outcomes.add("unpacked")
        except tg.DataError:
            outcomes.add("refused")
        for path in into.folder.parents[3].rglob("*"):
            folder = path if path.is_dir() else path.parent
            assert into.folder.is_relative_to(folder) and not path.is_symlink()
            assert path.is_dir() or path.suffix == ".npz"
    assert outcomes == {"unpacked", "refused"}


def test_what_is_no_archive_of_graphs(into):
    html, zipped = b"<html>not found</html>" * 100, b"PK\3\4" + bytes(2000)
    for content in (b"", html, b"\x1f\x8b" + bytes(600), zipped):
        refuses(lambda: into(content), tg.DataError, "tar file", "download it again")
    for members in ([], [("npz/layout/xla/random/test/a.npz", b"x")]):
        refuses(lambda: into(tar_of(members)), tg.DataError, "NAME.npz", "none")


def test_files_are_replaced_and_others_stay(into, tmp_path):
    archive = tar_of([(f"npz/{PLACE}/{name}.npz", name.encode() * 1000) for name in "abcd"])
    into.folder.mkdir(parents=True)
    (into.folder / "a.npz").write_bytes(b"a" * 1000)
    (into.folder / "b.npz").write_bytes(b"b" * 999 + b"x")
    (into.folder / "c.npz").write_bytes(b"short")
    (into.folder / "mine.npz").write_bytes(b"other")
    (into.folder / "d.npz").symlink_to(tmp_path / "outside" / "precious")
    (into.folder / ".a.npz.0123.tmp").write_bytes(b"of a killed process")
    into(archive)
    assert there(into.folder) == {**{f"{x}.npz": x.encode() * 1000 for x in "abcd"}, "mine.npz": b"other"}
    assert not (into.folder / "d.npz").is_symlink()


def test_interrupted_unpacking_leaves_whole_files(into, monkeypatch):
    archive = tar_of([(f"npz/{PLACE}/{name}.npz", name.encode() * 1000) for name in "abcd"])
    replace, calls = os.replace, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        replace(*args)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        into(archive)
    assert there(into.folder) == {f"{x}.npz": x.encode() * 1000 for x in "ab"}
    monkeypatch.setattr(os, "replace", replace)
    assert len(into(archive)) == 4


def test_a_full_disk_names_the_file(into, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left") as caught:
        into(tar_of([(f"npz/{PLACE}/a.npz", b"x")]))
    assert caught.value.filename.endswith("a.npz")


# --- from end to end ----------------------------------------------------------------------------------------


@pytest.fixture
def publish(monkeypatch):
    """Serve archives with one or two small graphs per split; no waiting and no flushing of the whole machine."""
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(transfer.time, "sleep", lambda _: None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    files = {}
    for archive in download.archives():
        name = "kernel_05" if archive.collection == "tile:xla" else "program"
        content = Path(madeup.path(name)).read_bytes()
        names = ("one", "two") if archive.split == "train" else ("one",)
        members = [(f"npz/{archive.place}/{name}.npz", content) for name in names]
        files[f"/v0/{archive.name}"] = tar_of(members)
    server = Server(files)
    server.base = f"{server.url}/v0"
    yield server
    server.close()


def run(capsys, *argv):
    code = cli.main([str(arg) for arg in argv])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_names_of_the_archives():
    names = [archive.name for archive in download.archives()]
    assert len(names) == 15 == len(set(names))
    assert names[:4] == [
        "npz_tile_xla_train.tar", "npz_tile_xla_valid.tar", "npz_tile_xla_test.tar", "npz_layout_xla_random_train.tar",
    ]  # fmt: skip
    (one,) = download.archives(["layout:nlp:default/test"])
    assert one.url == "https://download.tensorflow.org/data/tpu_graphs/v0/npz_layout_nlp_default_test.tar"
    assert one.place == "layout/nlp/default/test"


def test_commands(capsys, tmp_path):
    code, out, _ = run(
        capsys, "download", "layout:xla:random", "tile:xla/test", "--root", tmp_path / "my data"
    )
    base = "https://download.tensorflow.org/data/tpu_graphs/v0"
    lines = out.splitlines()
    assert code == 0 and lines[0] == f"mkdir -p '{tmp_path}/my data' && cd '{tmp_path}/my data'"
    assert f"curl -fL --retry 8 -C - -O {base}/npz_layout_xla_random_valid.tar" in lines
    assert "tar -xf npz_tile_xla_test.tar && rm npz_tile_xla_test.tar" in lines
    assert sum(line.startswith("curl") for line in lines) == 4 and "# layout:xla:random" in lines
    code, out, _ = run(capsys, "download", "--source", "kaggle")
    assert code == 0 and "kaggle competitions download -c predict-ai-model-runtime\n" in out
    assert "unzip -n predict-ai-model-runtime.zip 'npz_all/npz/layout/nlp/default/train/*'" in out
    code, out, _ = run(capsys, "download", "tile:xla", "--json")
    told = json.loads(out)
    assert list(told["commands"]) == ["", "tile:xla"] and len(told["commands"]["tile:xla"]) == 6
    assert not list(tmp_path.iterdir())


def test_the_whole_way(publish, tmp_path, capsys):
    publish.script = [{"cut": 3000}, {}, {"status": 503}]
    code, out, err = run(capsys, "download", "--root", tmp_path, "--run", "--url", publish.base)
    assert code == 0, err
    assert "layout:nlp:default/train: 2 graphs, downloaded" in out and "next: tpugraphs audit" in out
    assert "connection ended" in err and "answers 503" in err
    for name in data.COLLECTIONS:
        collection = tg.open_collection(name, tmp_path)
        assert [len(split) for split in (collection.train, collection.valid, collection.test)] == [2, 1, 1]
        assert collection.valid[0].num_configs in (23, 112)
    left = sorted(p.suffix for p in (tmp_path / ".download").iterdir())
    assert left == [".done"] * 15  # no archives, no parts
    asked = len(publish.requests)
    code, out, _ = run(capsys, "download", "--root", tmp_path, "--run", "--url", publish.base, "--json")
    told = json.loads(out)
    assert (
        code == 0 and {one["state"] for one in told} == {"already there"} and len(publish.requests) == asked
    )
    (tmp_path / "npz" / PLACE / "one.npz").unlink()
    again = download.run(["layout:xla:random"], tmp_path, publish.base, verbose=False)
    assert [one["state"] for one in again] == ["already there", "downloaded", "already there"]
    assert len(tg.open_collection("layout:xla:random", tmp_path).valid) == 1


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_records_count_as_none(publish, tmp_path, name):
    archive = download.archives(["tile:xla/valid"], publish.base)[0]
    download.run(["tile:xla/valid"], tmp_path, publish.base, verbose=False)
    one = download._Download(archive, tmp_path, False)
    assert one.done() is not None
    (tmp_path / ".download" / f"{archive.name}.done").write_bytes(BROKEN[name])
    assert one.done() is None


@pytest.mark.parametrize("entry", ["NaN", "1e999", "-1e999", "null", "[]", '"x"', "9" * 5000])
def test_records_of_impossible_sizes_count_as_none(publish, tmp_path, entry):
    archive = download.archives(["tile:xla/valid"], publish.base)[0]
    download.run(["tile:xla/valid"], tmp_path, publish.base, verbose=False)
    record = tmp_path / ".download" / f"{archive.name}.done"
    record.write_text(f'{{"url": "x", "files": [["one.npz", {entry}]]}}')
    assert download.run(["tile:xla/valid"], tmp_path, publish.base, verbose=False)[0]["state"] == "downloaded"


def test_another_archive_than_at_the_first_download_is_told(publish, tmp_path, capsys):
    name, what = "/v0/npz_tile_xla_test.tar", "tile:xla/test"
    first = publish.files[name]
    digest = hashlib.sha256(first).hexdigest()
    download.run(what, tmp_path, publish.base)
    assert f"{len(first):,} bytes, sha256 {digest}: recorded" in capsys.readouterr().err
    record = tmp_path / ".download" / "npz_tile_xla_test.tar.done"
    assert json.loads(record.read_text())["sha256"] == digest
    graph = tmp_path / "npz" / "tile" / "xla" / "test" / "one.npz"
    graph.unlink()
    download.run(what, tmp_path, publish.base)
    assert f"sha256 {digest}: the same archive" in capsys.readouterr().err
    graph.unlink()
    publish.files[name] = tar_of([("npz/tile/xla/test/one.npz", b"another")])
    for _ in range(2):
        with pytest.raises(
            tg.DataError, match="sha256: expected the archive of the first download"
        ) as caught:
            download.run(what, tmp_path, publish.base, verbose=False)
        assert caught.value.file.endswith(name) and digest in caught.value.expected and not graph.exists()
    publish.files[name] = first
    assert download.run(what, tmp_path, publish.base, verbose=False)[0]["state"] == "downloaded"
    graph.unlink()
    publish.files[name] = tar_of([("npz/tile/xla/test/one.npz", b"another")])
    record.unlink()
    assert download.run(what, tmp_path, publish.base, verbose=False)[0]["state"] == "downloaded"


def test_archives_can_be_kept(publish, tmp_path):
    (result,) = download.run("tile:xla/test", tmp_path, publish.base, keep=True, verbose=False)
    assert result["files"] == 1 and result["folder"] == str(tmp_path / "npz" / "tile" / "xla" / "test")
    archive = tmp_path / ".download" / "npz_tile_xla_test.tar"
    assert archive.read_bytes() == publish.files["/v0/npz_tile_xla_test.tar"]
    (tmp_path / ".download" / "npz_tile_xla_test.tar.done").unlink()
    asked = len(publish.gets())
    download.run("tile:xla/test", tmp_path, publish.base, verbose=False)
    assert len(publish.gets()) == asked and not archive.exists()  # unpacked from what was there


def test_not_enough_space(publish, tmp_path, monkeypatch, capsys):
    need = sum(len(content) for content in publish.files.values())
    biggest = max(len(content) for content in publish.files.values())
    usage = download.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage._replace(free=need))
    code, _, err = run(capsys, "download", "--root", tmp_path, "--run", "--url", publish.base)
    assert code == 1 and "free space: expected" in err and "choose fewer collections" in err
    assert publish.gets() == [] and not (tmp_path / "npz").exists()
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage._replace(free=need + 2 * biggest))
    assert run(capsys, "download", "--root", tmp_path, "--run", "--url", publish.base)[0] == 0


def test_keeping_the_archives_takes_twice_the_space(publish, tmp_path, monkeypatch):
    need = sum(len(content) for content in publish.files.values())
    usage = download.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage._replace(free=int(1.9 * need)))
    with pytest.raises(tg.DataError, match="free space"):
        download.run((), tmp_path, publish.base, keep=True, verbose=False)


@pytest.mark.parametrize("bad", ["link", "size"])
def test_a_bad_archive_is_not_kept(publish, tmp_path, bad):
    name = "/v0/npz_tile_xla_test.tar"
    good = publish.files[name]
    info = special(tarfile.SYMTYPE, "npz/tile/xla/test/x.npz", "/etc/passwd")
    if bad == "size":
        info = special(tarfile.REGTYPE, "npz/tile/xla/test/x.npz")
        info.pax_headers = {"size": "-1"}
    publish.files[name] = tar_of([(info, b"")])
    with pytest.raises(tg.DataError, match="a link" if bad == "link" else "of -1 bytes"):
        download.run("tile:xla/test", tmp_path, publish.base, verbose=False)
    assert not list((tmp_path / "npz" / "tile" / "xla" / "test").iterdir())
    publish.files[name] = good
    assert download.run("tile:xla/test", tmp_path, publish.base, verbose=False)[0]["files"] == 1


def test_one_download_at_a_time(publish, tmp_path):
    (tmp_path / ".download").mkdir()
    with locked(str(tmp_path / ".download")):
        with pytest.raises(tg.ConfigError, match="another download"):
            download.run("tile:xla/test", tmp_path, publish.base, verbose=False)


@pytest.mark.parametrize(
    "argv, code, tells",
    [
        (["tile"], 2, "collection: expected one of tile:xla, layout:xla:random"),
        (["tile:xla/all"], 2, "no split 'all'"),
        (["--url", "ftp://x"], 2, "expected an address"),
        (["--source", "kaggle", "--run"], 2, "Kaggle needs your account"),
        (["tile:xla/test", "--run", "--url", "URL/none"], 1, "found 404"),
    ],
)
def test_errors(publish, tmp_path, capsys, argv, code, tells):
    argv = [arg.replace("URL", publish.url) for arg in argv]
    got, out, err = run(capsys, "download", "--root", tmp_path, *argv)
    assert (got, out) == (code, "") and tells in err and err.count("\n") == 1


def test_progress_in_a_terminal(publish, tmp_path, capsys):
    download.run("tile:xla", tmp_path, publish.base, verbose=True)
    err = capsys.readouterr().err
    assert "npz_tile_xla_train.tar: " in err and ": 2 graphs in " in err
    with Progress(None, "a.tar: download", "B", True) as bar:
        bar._bar.delay = 0.0  # shown at once, not only when it takes long
        bar.move(500, 1000)
        bar._bar.refresh()
        archive = download.archives(["tile:xla/test"])[0]
        download._Download(archive, tmp_path, None).note("told meanwhile")
    told = capsys.readouterr()
    assert "a.tar: download:  50%" in told.err and "\rnpz_tile_xla_test.tar: told meanwhile\n" in told.err
    assert told.out == ""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("name_of_signal", ["SIGINT", "SIGKILL"])
def test_ctrl_c_keeps_the_part_and_the_same_command_goes_on(publish, tmp_path, name_of_signal):
    """In a process of its own, against a server that sends a part and then waits."""
    name = "/v0/npz_layout_xla_random_valid.tar"
    publish.script = [{"cut": 5000}, {"status": 503, "headers": {"Retry-After": "30"}}]
    main = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # may be ignored here
    main += "from tpugraphs import cli; sys.exit(cli.main())"
    argv = [sys.executable, "-P", "-c", main, "download", "layout:xla:random/valid", "--run"]
    argv += ["--root", str(tmp_path), "--url", publish.base]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env)
    try:
        for line in child.stderr:
            if "503" in line:  # it waits for 30 s now
                break
        time.sleep(0.1)
        child.send_signal(getattr(signal, name_of_signal))
        _, err = child.communicate(timeout=20)
    finally:
        child.kill()
    if name_of_signal == "SIGINT":
        assert child.returncode == 130 and "kept in" in err and "Traceback" not in err
    part = tmp_path / ".download" / "npz_layout_xla_random_valid.tar.part"
    assert part.read_bytes() == publish.files[name][:5000]
    assert download.run("layout:xla:random/valid", tmp_path, publish.base, verbose=False)[0]["files"] == 1
    assert publish.gets()[-1] == ("bytes=5000-", '"one"') and publish.sent == len(publish.files[name])


def test_killed_while_downloading(publish, tmp_path, monkeypatch):
    """What a process that was killed leaves is taken up, whatever moment it was."""
    name = "layout:xla:random/valid"
    for moment in ("part", "tar", "files"):
        root = tmp_path / moment

        def die(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            if moment == "part":
                publish.script = [{"cut": 2000}]
                patch.setattr(transfer.time, "sleep", die)
            elif moment == "tar":
                patch.setattr(download, "unpack", die)
            else:
                patch.setattr(os, "sync", die)
            with pytest.raises(KeyboardInterrupt, match="resumes"):
                download.run(name, root, publish.base, verbose=False)
        before = publish.sent
        assert download.run(name, root, publish.base, verbose=False)[0]["files"] == 1
        assert (publish.sent == before) == (moment != "part")
