"""Programs of JAX: their graphs, and what their configurations cost on this machine."""
