"""Sizes as people write them: 8, 64K, 1M."""

SUFFIXES = (("G", 30), ("M", 20), ("K", 10))


def parse_size(text):
    """Bytes; ValueError says what is legal."""
    shift = dict(SUFFIXES).get(text[-1:].upper(), 0)
    digits = text[:-1] if shift else text
    if not digits.isdigit() or int(digits) == 0:
        raise ValueError(f"`{text}` is not a size: write 8, 64K, 1M ...")
    return int(digits) << shift


def size_text(size):
    for suffix, shift in SUFFIXES:
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{suffix}"
    return str(size)
