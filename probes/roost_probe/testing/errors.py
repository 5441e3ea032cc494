"""What the fake driver refuses."""


class DescriptionError(Exception):
    """A node description cannot be made into a driver; says which file, line and value."""
