"""What ends a worker from inside, told apart by whoever started it."""


class EngineLostError(Exception):
    """The JVM is gone: the process must start anew."""
