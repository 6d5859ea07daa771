"""Recipes: complete, named ways to build and train a ranker, one file per solution."""
