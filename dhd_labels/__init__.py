"""dhd-labels: which agents' messages are worth hearing."""

__version__ = "0.1.0"
