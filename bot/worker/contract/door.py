"""Where a nursery is knocked at: what follows the path of its door, and the file that says that it is open."""

PLAIN, INTERPRETING = "", ".interpreting"
"""The second room has Triton imported as its interpreter."""
ROOMS = (PLAIN, INTERPRETING)
OPEN = ".open"
