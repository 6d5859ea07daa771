"""Programs of one's own: their graphs, and their configurations measured on this machine."""
