"""The front door: one verb a zone, and the verbs people type."""
