"""Networks for images, and what prepares their pixels."""

from trainkit.core.values.docstrings import describe_arguments as _describe_arguments

_describe_arguments(
    globals(),
    """
    """,
)
