"""Pages that are made from the core are up to date."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_tables_of_ops_and_losses_are_up_to_date():
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert (DOCS / "tables.md").read_text() == tables.text(), "run `make tables`"
