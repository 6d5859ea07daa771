"""Times of networks from times of their layers."""
