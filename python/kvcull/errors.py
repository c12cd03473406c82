"""The library's errors as exceptions, one class for each status. Their text is the library's message."""


class KvcullError(Exception):
    """An error of the library. Its text is one line: what is wrong, where, and what would be right. `status` is the
    number."""

    status = -1


class DiffersError(KvcullError):
    """A check failed (status 1)."""

    status = 1


class UsageError(KvcullError, ValueError):
    """A wrong option, policy or argument (status 2)."""

    status = 2


class InputError(KvcullError):
    """A bad input file, or a model whose logits are not finite (status 3)."""

    status = 3


class ResourceError(KvcullError):
    """Lack of memory, of a device or of disk space (status 4)."""

    status = 4


_CLASSES = {error.status: error for error in (DiffersError, UsageError, InputError, ResourceError)}


def of_status(status: int, text: str) -> KvcullError:
    """Returns the exception for a nonzero status."""
    return _CLASSES.get(status, KvcullError)(text)
