"""Files, progress bars, interrupts and text tables: nothing here knows what a graph is."""
