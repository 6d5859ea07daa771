"""One measured row, and a collection of them that can be written, read and merged."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Record:
    """What was measured, beside what, and what was asked for.

    `ours` and `peer` are in `unit`, less is better, and `ratio` is peer / ours: how many times better we are
    (from pairs measured in turn, so not exactly the quotient of the two). `required` is the least ratio asked
    for. `reached` follows from them unless it is given. `roof` is the least the machine allows, in `unit`;
    `fraction` of it is what we reach. `facts` are numbers for figures.
    """

    section: str
    case: str
    ours: float | None
    peer: float | None = None
    peer_name: str = ""
    unit: str = "ms"
    ratio: float | None = None
    required: float | None = None
    roof: float | None = None
    fraction: float | None = None
    reached: bool | None = None
    notes: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.ratio is None and self.ours and self.peer is not None and self.unit != "tau":
            self.ratio = self.peer / self.ours
        if self.fraction is None and self.ours and self.roof is not None:
            self.fraction = self.roof / self.ours
        if self.reached is None and self.required is not None and self.ratio is not None:
            self.reached = self.ratio >= self.required

    @property
    def key(self) -> tuple[str, str]:
        """What a newer measurement of the same thing replaces."""
        return self.section, self.case


@dataclass
class Results:
    """Records, and the runs they come from (command, machine, load)."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Append, or replace the record of the same section and case."""
        for i, old in enumerate(self.records):
            if old.key == record.key:
                self.records[i] = record
                return
        self.records.append(record)

    def of(self, section: str) -> list[Record]:
        return [record for record in self.records if record.section == section]

    def sort(self, sections: Iterable[str]) -> None:
        """Sections in this order, records of a section as they came."""
        order = {name: i for i, name in enumerate(sections)}
        self.records.sort(key=lambda record: order.get(record.section, len(order)))

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, allow_nan=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> Results:
        content = json.loads(path.read_text())
        return cls(content["runs"], [Record(**row) for row in content["records"]])
