"""The door to the repository being optimised: which kernels it has, where they live, how it checks them."""
