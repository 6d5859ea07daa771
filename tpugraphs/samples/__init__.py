"""Embedded real data; see NOTICE for where each file comes from."""
