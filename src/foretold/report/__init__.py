"""L5: what a person reads. Text for terminals and notes, data for programs; no decisions."""
