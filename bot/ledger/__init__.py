"""The campaign's memory: journals on an orphan branch, and the segment a GPU job leaves."""
