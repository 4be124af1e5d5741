"""The version of foretold, below every layer."""

VERSION = "0.1.0"
