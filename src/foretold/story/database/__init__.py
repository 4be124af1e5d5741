"""The part of a story about the database: which transactions got into each other's way."""
