"""The voice: a campaign in; Markdown, commit messages, plots and records out. No clock, no network."""
