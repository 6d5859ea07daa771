"""A model with its preprocessing: what scores graphs, and how its weights are stored."""
