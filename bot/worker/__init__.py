"""The untrusted guest house: runs variant code. Imports only itself, the standard library, torch, triton and numpy."""
