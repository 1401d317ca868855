"""What the system allows this process: descriptors for all it needs, and no image of its memory."""

import resource


def raise_descriptors(wanted: int) -> int:
    """Have this process allowed `wanted` open descriptors if it may; return how many it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard):
        return wanted
    if soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def forbid_core_dumps() -> None:
    """Keep memory text and token out of what the system saves of a crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
