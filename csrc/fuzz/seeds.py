"""Seeds for the fuzz targets from the embedded samples: whole files, small ones of odd kinds, streams."""

import io
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np

out = Path(sys.argv[1])
whole, streams = out / "corpus_npz", out / "corpus_inflate"
whole.mkdir(parents=True, exist_ok=True)
streams.mkdir(parents=True, exist_ok=True)
samples = Path(__file__).parents[2] / "tpugraphs" / "samples"
for path in sorted(samples.glob("tile_*.npz")):
    (whole / path.name).write_bytes(path.read_bytes())
for dtype in ("<f4", ">f4", "<f8", "<f2", "i1", ">i8", "<u4"):
    digits = (np.arange(2 * 3 * 18) % 6).reshape(2, 3, 18).astype(dtype)
    for save, kind in ((np.savez, "stored"), (np.savez_compressed, "deflated")):
        file = io.BytesIO()
        save(file, node_config_feat=digits, node_opcode=np.arange(3, dtype=np.uint8))
        (whole / f"{kind}_{np.dtype(dtype).str.strip('|<>')}_{dtype[0] == '>'}.npz").write_bytes(
            file.getvalue()
        )
file = io.BytesIO()
with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.comment = b"comment"
    for version in ((1, 0), (2, 0), (3, 0)):
        with archive.open(f"v{version[0]}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.ones((2, 2)), version=version)
(whole / "versions.npz").write_bytes(file.getvalue())
texts = {
    "zeros": bytes(70000),
    "text": bytes(range(256)) * 40,
    "short": b"abc",
    "floats": np.ones(9000, "f4").tobytes(),
}
for name, text in texts.items():
    for level, strategy in (
        (0, 0),
        (1, 0),
        (9, 0),
        (9, zlib.Z_FIXED),
        (9, zlib.Z_HUFFMAN_ONLY),
        (9, zlib.Z_RLE),
    ):
        packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
        packed = packer.compress(text) + packer.flush()
        (streams / f"{name}_{level}_{strategy}").write_bytes(len(text).to_bytes(3, "little") + packed)
