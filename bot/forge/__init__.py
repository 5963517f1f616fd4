"""The door to GitHub: events come in, comments and statuses go out."""
