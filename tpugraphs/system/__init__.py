"""Files, progress bars, interrupts, text tables, the machine: nothing here knows what a graph is."""
