"""The collections in the package: measure programs of the zoo, and put what was measured into archives.

    python -m release.measured collect DIR --sizes 3 2   # compiler options, the longest programs first
    python -m benchmarks.xla_fresh --data DIR --pairs DIR/pairs.jsonl   # compares them with fresh processes
    python -m release.measured pack DIR/options/xla/cpu

Run `collect` on a quiet machine; the same call continues.

Graphs share most of their bytes. So `pack` stores their arrays as they are and compresses the archive as a
whole: less than half of the size of the same graphs as single files. The same graphs make the same bytes.
"""

from __future__ import annotations

import argparse
import io
import lzma
import shutil
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import tpugraphs as tg
from tpugraphs.data.collections import ARCHIVE, OWN
from tpugraphs.xla.building import SHEET

CONFIGS = 112
SMALL: dict[str, Any] = {"rounds": 12, "passes": 3}
# By size: fewer rounds the longer the programs take, but four at least.
ROUNDS: list[dict[str, Any]] = [
    SMALL, SMALL, {"rounds": 8, "passes": 2, "seconds": 60.0}, {"rounds": 8, "passes": 2, "seconds": 40.0},
]  # fmt: skip


def collect(folder: Path, sizes: list[int]) -> None:
    """Measure programs of these sizes; `tpugraphs.xla.build` measures all sizes with the same rounds."""
    place = folder / "options" / "xla" / "cpu"
    for program in (one for size in sizes for one in tg.xla.zoo.programs() if one.size == size):
        out = place / program.split / f"{program.name}.npz"
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists():
            continue
        fn, args = program.build()
        how = ROUNDS[program.size]
        try:
            graph = tg.xla.collect(fn, *args, name=program.name, n_configs=CONFIGS, out=out, **how)
        except tg.Error as error:
            print(f"{program.name}: {error}", flush=True)
            continue
        took, rounds = graph.runtime[0] / 1e6, graph.about["rounds"]
        print(time.strftime("%H:%M"), f"{program.name}: {took:.2f} ms, {rounds} rounds", flush=True)
    (place / SHEET).write_text(tg.xla.data_sheet(place))


def stored(file: Path) -> bytes:
    """Return an npz with its arrays stored, not compressed."""
    written = io.BytesIO()
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(written, "w") as after:
        for name in before.namelist():
            after.writestr(zipfile.ZipInfo(name), before.read(name))
    return written.getvalue()


def archive(folder: Path) -> bytes:
    """Return the archive of a collection."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as file:
        for path in sorted(folder.rglob("*.npz")):
            content = stored(path)
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return lzma.compress(written.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def pack(folder: Path) -> None:
    """Put a collection into the package, with its data sheet."""
    content, sheet = archive(folder), (folder / SHEET).read_bytes()
    place = OWN.joinpath(*folder.resolve().parts[-3:])
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / ARCHIVE).write_bytes(content)
    (place / SHEET).write_bytes(sheet)
    print(f"{place}: {len(content):,} bytes")


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(dest="step", required=True)
    measuring, packing = steps.add_parser("collect"), steps.add_parser("pack")
    for step in (measuring, packing):
        step.add_argument("folder", type=Path)
    measuring.add_argument("--sizes", type=int, nargs="+", choices=range(len(ROUNDS)), default=[3, 2, 1, 0])
    args = parser.parse_args()
    if args.step == "pack":
        pack(args.folder)
    else:
        collect(args.folder, args.sizes)


if __name__ == "__main__":
    main()
