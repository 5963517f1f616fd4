"""The life of a campaign: a pure machine over facts (no clock, no network, no disk, no GPU)."""
