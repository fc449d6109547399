"""Plans: what is asked of which space, read and checked."""
