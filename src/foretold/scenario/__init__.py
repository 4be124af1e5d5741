"""Scenarios: programs that are written as data.

    source.py    the text of a file as a tree whose parts know their line and column
    toml.py      the same for TOML
    scenario.schema.json   which keys there are and what they hold; published, for editors
    schema.py    checks a tree against it, and says in a sentence what does not fit
    values.py    values that the tape draws, and references to earlier results
    matching.py  what is expected: by value, by comparison, by subset
    model.py     the scenario itself
    vocabulary.py   what it may talk about: actors, intents, queries, ports, strategies
    writing.py   a scenario as text

Nothing in a file is code, and reading one runs nothing. `foretold.harness` plays it.
"""
