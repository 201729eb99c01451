"""BFQ: budget fair queueing with cgroups, in the kernel's shape. Read docs/bfq.md, then scheduler.py."""
