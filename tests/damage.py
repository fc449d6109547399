"""Damage to files, drawn from a seed: bytes overwritten, flipped, cut off, removed, repeated."""

import random
from pathlib import Path


def damaged(content: bytes, seed: int) -> bytes:
    """Some content with one kind of damage; never the same content."""
    draw = random.Random(seed)
    found = content
    while found == content:
        at = draw.randrange(max(1, len(content)))
        length = min(draw.choice((1, 1, 2, 16, 300)), len(content) - at)
        kind = draw.choice(("flip", "digit", "noise", "zeros", "cut", "remove", "repeat"))
        piece = content[at : at + length]
        if kind == "flip":
            piece = bytes([piece[0] ^ 1 << draw.randrange(8)]) + piece[1:]
        elif kind == "digit":  # another number, in a file that is as valid as before
            digits = [place for place, byte in enumerate(content) if chr(byte).isdigit()]
            at = draw.choice(digits) if digits else at
            length, piece = 1, str(draw.randrange(10)).encode()
        elif kind == "noise":
            piece = draw.randbytes(length)
        elif kind == "zeros":
            piece = bytes(length)
        elif kind == "cut":
            length, piece = len(content) - at, b""
        elif kind == "remove":
            piece = b""
        elif kind == "repeat":
            piece = piece * 3
        found = content[:at] + piece + content[at + length :]
    return found


def damage(path: Path, seed: int) -> None:
    """Damage a file in its place."""
    path.write_bytes(damaged(path.read_bytes(), seed))
