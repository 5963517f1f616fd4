"""The four zones: the only places where effects touch the world. A zone carries effects out; it decides nothing."""
