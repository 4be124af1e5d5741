"""What the game allows, apart from who asks and how."""
