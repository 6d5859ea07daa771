"""Files, progress bars, interrupts, text tables, the machine: nothing here knows what a graph is."""

from tpugraphs.system.arguments import check_choice, check_number, check_share, check_type, check_whole
from tpugraphs.system.files import absolute, atomic_write, file_name, locked, write_whole
from tpugraphs.system.interrupts import Interrupts
from tpugraphs.system.logs import log
from tpugraphs.system.progress import Progress, notice, tracked
from tpugraphs.system.texts import csv_columns, parsed, read_whole
from tpugraphs.system.words import counted, few, json_text, plural

__all__ = [
    "Interrupts", "Progress", "absolute", "atomic_write", "check_choice", "check_number", "check_share",
    "check_type", "check_whole", "counted", "csv_columns", "few", "file_name", "json_text", "locked", "log",
    "notice", "parsed", "plural", "read_whole", "tracked", "write_whole",
]  # fmt: skip
