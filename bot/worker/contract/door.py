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
TO_COMPILE_FOR = "compile-for.txt"
"""And the architecture of the GPU whose kernels it is to compile."""
KERNELS = "kernels"
"""A folder beside the answer: what Triton compiled for it. And one beside the request: what it compiled of that source
before."""
IMPORTED = "imported.txt"
"""Beside the answer: the libraries that were imported with the op."""
