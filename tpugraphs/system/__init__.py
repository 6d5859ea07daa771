"""Files, progress bars, interrupts, text tables, the machine: nothing here knows what a graph is."""

from tpugraphs.system.arguments import check_choice, check_number, check_share, check_type, check_whole
from tpugraphs.system.extras import optional
from tpugraphs.system.files import absolute, atomic_write, digest_of, file_name, locked, name_of, write_whole
from tpugraphs.system.interrupts import Interrupts
from tpugraphs.system.logs import log
from tpugraphs.system.progress import Progress, notice, tracked, wanted
from tpugraphs.system.texts import csv_columns, parsed, read_whole
from tpugraphs.system.words import counted, few, json_text, plural

__all__ = [
    "Interrupts", "Progress", "absolute", "atomic_write", "check_choice", "check_number", "check_share",
    "check_type", "check_whole", "counted", "csv_columns", "digest_of", "few", "file_name",
    "json_text", "locked", "log", "name_of", "notice", "optional", "parsed", "plural", "read_whole",
    "tracked", "wanted", "write_whole",
]  # fmt: skip
