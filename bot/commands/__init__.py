"""What a comment asks for, and whether its author may ask it."""
