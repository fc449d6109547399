"""What is recorded of a run: spans, gradients, links, memory."""
