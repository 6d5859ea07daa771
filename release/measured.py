"""Put a measured collection into the package, as one archive with its data sheet.

    tpugraphs collect --zoo --configs 112 --seconds 60 --out DIR   # on a quiet machine; continues
    python -m benchmarks.xla_fresh --data DIR --pairs DIR/pairs.jsonl   # compares it with fresh processes
    python -m release.measured DIR/options/xla/cpu

Graphs share most of their bytes. So their arrays are stored as they are and the archive is compressed as a
whole: less than half of the size of the same graphs as single files. The same graphs make the same bytes.
"""

from __future__ import annotations

import argparse
import io
import lzma
import shutil
import tarfile
import zipfile
from pathlib import Path

from tpugraphs.data.collections import ARCHIVE, OWN
from tpugraphs.xla.building import SHEET, data_sheet


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
    content, sheet = archive(folder), data_sheet(folder)
    place = OWN.joinpath(*folder.resolve().parts[-3:])
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / ARCHIVE).write_bytes(content)
    (place / SHEET).write_text(sheet, encoding="utf-8")
    print(f"{place}: {len(content):,} bytes")


def main() -> None:
    """Pack the folder of a collection."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder with the splits")
    pack(parser.parse_args().folder)


if __name__ == "__main__":
    main()
