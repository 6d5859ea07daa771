"""Networks: a model with its preprocessing, scoring in chunks, and weights from outside."""
