"""The words of the house: frozen types, no input or output (see docs/design.md, "Words")."""
