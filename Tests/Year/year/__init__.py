"""A home's year with a gateway, in hours: see ../run."""


class Failed(Exception):
    """What a gateway may not do."""
