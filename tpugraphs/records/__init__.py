"""Records of measured configurations: kept in journals, read and written in the formats of other tuners."""

from tpugraphs.records.formats import merge, read, write
from tpugraphs.records.journal import Journal
from tpugraphs.records.record import STATUSES, Record, environment
from tpugraphs.records.summary import summarize
from tpugraphs.records.tables import to_frame

__all__ = ["STATUSES", "Journal", "Record", "environment", "merge", "read", "summarize", "to_frame", "write"]
