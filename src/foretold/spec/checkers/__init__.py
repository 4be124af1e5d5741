"""Checkers: is what was observed explained by what a model allows? Ok, violated, or unknown."""
