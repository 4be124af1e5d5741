"""Real services under control: the program talks to the genuine thing, the tape decides when."""
