"""What a search tries next: seeds and plans, what it learns from its runs, and when it ends."""
