"""What is known of GPUs, each number with the document it was read in."""
