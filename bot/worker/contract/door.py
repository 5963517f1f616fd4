"""How workers are met that were started before they are needed.

A nursery is knocked at: what follows the path of its door, and the file that says that it is open. Another waits for
its request to come.
"""

PLAIN, INTERPRETING = "", ".interpreting"
"""The second room has Triton imported as its interpreter."""
ROOMS = (PLAIN, INTERPRETING)
OPEN = ".open"

WAIT = "--wait"
TO_IMPORT = "import.txt"
"""Beside the request that is to come: the libraries that a worker imports while it waits."""
IMPORTED = "imported.txt"
"""Beside the answer: the libraries that were imported with the op."""
