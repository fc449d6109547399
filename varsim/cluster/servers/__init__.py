"""Parameter servers: their variables, queues and buffers, and where they stand."""
