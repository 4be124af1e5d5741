"""L4: what happened in a run, in words: a function of its events and of what decides it.

Nothing here makes a run. The search has its failures told here, and the report its lines.
"""
