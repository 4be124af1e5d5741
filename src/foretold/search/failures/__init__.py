"""From a failing run to a failure that is shrunk, explained, confirmed and kept."""
