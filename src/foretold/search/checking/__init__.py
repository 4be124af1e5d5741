"""Runs that answer a question: does it replay, does it test anything, does it catch mutants?"""
